// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's YAML (neox_args): Megatron's keys under older names, with DeepSpeed's beside them. Several files are one
// configuration there, too.
#include <functional>

#include <fmt/format.h>

#include "base/text.h"
#include "job/alias_rows.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kGptNeoxRows[] = {
    {"pipe_parallel_size", kNoEffect},  // 0 is 1; read below
    {"model_parallel_size", kNoEffect},
    {"train_micro_batch_size_per_gpu", kKey, "micro_batch_size"},
    {"train_batch_size", kKey, "global_batch_size"},
    {"intermediate_size", kNoEffect},
    {"no_weight_tying", kInverse, "share_embeddings_and_output_weights"},
    {"pos_emb", kNoEffect},
    {"norm", kNoEffect},
    {"activation", kNoEffect},
    {"num_kv_heads", kNoEffect},
    {"gradient_clipping", kKey, "clip_grad"},
    {"checkpoint_activations", kNoEffect},
    {"checkpoint_num_layers", kNoEffect},
    {"attention_config", kNoEffect},
    {"gpt_j_residual", kNotModelled, "parallel residual layers are counted as sequential ones"},
    {"gpt_j_tied", kNoEffect},
    {"partition_activations", kNotModelled, "checkpoints split over tensor ranks are counted whole"},
    {"use_bias_in_mlp", kNoEffect},
    {"use_bias_in_attn_linear", kNoEffect},
    {"use_bias_in_norms", kNoEffect},
    {"mlp_multiple_of", kNoEffect},
    {"zero_optimization", kNoEffect},
    {"moe_num_experts", kRefused, "the experts of GPT-NeoX are not modelled", "1"},
    {"use_mup", kNoEffect},
    {"sliding_window_width", kNoEffect},
    {"attention_dropout", kKey, "attention_dropout"},
    {"output_layer_parallelism", kNoEffect},
    {"soft_prompt_tuning", kRefused, "prompt tuning is not modelled"},
    {"train_impl", kNoEffect},  // read before the keys
    {"lora", kRefused, "adapters of GPT-NeoX are not modelled"},
    {"te_*", kNotModelled, "Transformer Engine layers are counted as Megatron's own"},
    {"sequence_parallel", kKey, "sequence_parallel"},
    {"is_pipe_parallel", kNoEffect},
};

constexpr std::string_view kGptNeoxWithoutEffect = R"(
    data_path data_impl split max_position_embeddings_of rotary_pct rotary_emb_base rope_fusion layernorm_fusion rmsnorm_fusion init_method
    output_layer_init_method lr_decay_style lr_decay_iters min_lr hidden_dropout_of train_iters distributed_backend
    warmup checkpoint_factor eval_interval eval_iters log_interval steps_per_print keep_last_n_checkpoints wall_clock_breakdown
    synchronize_each_layer vocab_file merge_file save load checkpoint_validation_with_forward_pass tensorboard_dir log_dir
    use_wandb wandb_* launcher deepspeed_slurm deepspeed_mpi no_ssh_check force_multi comment rms_norm_epsilon layernorm_epsilon
    fp32_allreduce precision tokenizer_type train_data_paths valid_data_paths test_data_paths label_data_paths
    train_data_weights valid_data_weights test_data_weights weight_by_num_documents seed num_workers finetune hostfile
    scaled_upper_triang_masked_softmax_fusion bias_gelu_fusion scaled_masked_softmax_fusion hysteresis loss_scale
    weight_decay adam_* lr optimizer_params scheduler extra_save_iters s3_* checkpoint checkpoint_scale load_iteration
    no_load_optim no_load_rng no_save_rng eod_mask_loss pipe_partition_method communication_data_type gradient_accumulation_steps_of
    curriculum_learning git_hash attention_softmax_in_fp32 prescale_gradients flops_profiler checkpoint_in_cpu contiguous_checkpointing
    data_types num_gpus include exclude master_port dump_state use_shared_fs text_gen_type temperature top_p top_k
    maximum_tokens sample_input_file sample_output_file num_samples recompute pack_impl allow_chopped load_flag dataset_impl
    zero_allow_untested_optimizer account autotuning use_flashattn_swiglu mup_* save_iters do_train do_valid do_test
    checkpoint_num_of use_checkpoint_lr_scheduler override_lr_scheduler onnx_safe profile profile_* memory_profiling*
    pos_emb_of rwkv_* mamba_* expansion_factor attention_head_dim_of no_ssh_check_of eval_tasks eval_results_prefix
)";

const std::vector<Alias>& names() {
  static const std::vector<Alias> table = with_names_without_effect(kGptNeoxRows, kGptNeoxWithoutEffect);
  return table;
}

// GPT-NeoX writes pipe-parallel-size and pipe_parallel_size alike.
Node in_key_spelling(const Node& root) {
  Node result;
  result.kind = Node::Kind::kObject;
  for (const auto& [key, value] : root.members) result.members.emplace_back(replace(key, '-', '_'), value);
  return result;
}

Result<std::int64_t> size_at(const Node& root, std::string_view key) {
  const Node* value = root.find(key);
  if (value == nullptr || value->is_null()) return 1;
  auto number = to_integer(*value, Range{0, 1 << 12});
  if (!number) return bad_input(fmt::format("{}: {}", key, number.error().message));
  return std::max<std::int64_t>(1, *number);
}

std::string word_at(const Node& root, std::string_view key) {
  const Node* value = root.find(key);
  return value != nullptr && value->is_string() ? lower(value->text) : std::string{};
}

bool is_on(const Node& root, std::string_view key, bool otherwise) {
  const Node* value = root.find(key);
  return value == nullptr ? otherwise : !is_off(*value);
}

Status read_layers(const Node& root, Draft& draft) {
  const std::string position = word_at(root, "pos_emb");
  if (position == "alibi" || position == "rpe")
    draft.warnings.push_back(fmt::format("pos_emb: '{}' is counted as no position embedding", position));
  draft.assign("position_embedding_type",
               text_node(position == "rotary"                        ? "rope"
                         : position.empty() || position == "learned" ? "learned_absolute"
                                                                     : "none"),
               "pos_emb");
  const std::string norm = word_at(root, "norm");
  draft.assign("normalization", text_node(norm.find("rms") == 0 ? "RMSNorm" : "LayerNorm"), "norm");
  const std::string activation = word_at(root, "activation");
  const bool is_gated = activation == "swiglu" || activation == "geglu" || activation == "reglu";
  if (activation == "geglu" || activation == "reglu" || activation == "bilinear")
    return bad_input(fmt::format("activation: '{}' is not modelled", activation));
  if (is_gated) draft.assign("swiglu", bool_node(true), "activation");
  if (const Node* width = root.find("intermediate_size"); width != nullptr && width->is_integer()) {
    // A gated layer splits the given width in two, and its size is a third of it times two.
    std::int64_t wide = width->integer;
    if (is_gated) {
      const Node* multiple = root.find("mlp_multiple_of");
      const std::int64_t of =
          multiple != nullptr && multiple->is_integer() && multiple->integer > 0 ? multiple->integer : 1;
      wide = (width->integer / 3 + of - 1) / of * of;
    }
    draft.assign("ffn_hidden_size", integer_node(wide), "intermediate_size");
  }
  draft.assign("add_bias_linear", bool_node(is_on(root, "use_bias_in_mlp", true)), "use_bias_in_mlp");
  if (const Node* heads = root.find("num_kv_heads"); heads != nullptr && !heads->is_null()) {
    draft.assign("group_query_attention", bool_node(true), "num_kv_heads");
    draft.assign("num_query_groups", *heads, "num_kv_heads");
  }
  return {};
}

// The kinds of layer in "[[["flash"], 12], [["mamba"], 12]]"; what no attention is trains another model.
Status check_layer_kinds(const Node& list) {
  if (list.is_array()) {
    for (const Node& item : list.items) PLIMSOLL_TRY_STATUS(check_layer_kinds(item));
    return {};
  }
  if (!list.is_string()) return {};
  for (const std::string_view other : {"mamba", "rwkv", "gmlp", "amlp"})
    if (list.text == other)
      return bad_input(fmt::format("attention_config: layers of kind '{}' are not modelled; only attention is", other));
  return {};
}

// Flash attention where every layer has it; any other kind keeps its scores.
void read_attention(const Node& list, Draft& draft) {
  bool all_flash = true;
  bool any = false;
  const std::function<void(const Node&)> look = [&](const Node& node) {
    for (const Node& item : node.items) look(item);
    if (!node.is_string() || node.text == "all") return;
    any = true;
    all_flash = all_flash && node.text == "flash";
  };
  look(list);
  if (any && all_flash) draft.assign("attention_backend", text_node("flash"), "attention_config");
}

// The loop around the model: preference training holds a reference, and DPO two answers per sample.
Status read_training_loop(const Node& root, Draft& draft) {
  const std::string loop = word_at(root, "train_impl");
  if (loop.empty() || loop == "normal") return {};
  if (loop != "dpo" && loop != "kto")
    return bad_input(fmt::format("train_impl: '{}' trains another head or loop, which is not modelled", loop),
                     "plimsoll rl sizes GRPO and PPO runs");
  if (!is_on(root, "dpo_reference_free", false) && word_at(root, "precompute_model_name").empty())
    draft.assign("reference_model", bool_node(true), "train_impl");
  const Node* micro = root.find("train_micro_batch_size_per_gpu");
  if (loop == "dpo" && micro != nullptr && micro->is_integer() && micro->integer > 0 && micro->integer < (1 << 20))
    draft.assign("train_micro_batch_size_per_gpu", integer_node(2 * micro->integer), "train_impl");
  draft.warnings.push_back(fmt::format("train_impl {}: the reference's forward pass is not in the step's time", loop));
  draft.notes.push_back(
      fmt::format("{}: preference training{}", draft.path,
                  loop == "dpo" ? ": two answers of a sample are two sequences of a micro-batch" : ""));
  return {};
}

// Every optimizer but Adam has other states.
Status read_optimizer(const Node& root, Draft& draft) {
  const Node* optimizer = root.find("optimizer");
  const Node* type = optimizer == nullptr || !optimizer->is_object() ? nullptr : optimizer->find("type");
  if (type == nullptr || !type->is_string()) return {};
  const std::string name = lower(type->text);
  if (name == "adam" || name == "adamw" || name == "cpu_adam") return {};
  if (name == "sgd" || name == "lion") {
    draft.assign("optimizer", text_node(name), "optimizer.type");
    return {};
  }
  return bad_input(fmt::format("optimizer.type: the states of '{}' are not modelled", type->text.substr(0, 80)));
}

void read_precision(const Node& root, Draft& draft) {
  for (const std::string_view key : {"bf16", "fp16"}) {
    const Node* table = root.find(key);
    const Node* on = table != nullptr && table->is_object() ? table->find("enabled") : nullptr;
    if (on != nullptr && !is_off(*on)) draft.assign(std::string(key), bool_node(true), fmt::format("{}.enabled", key));
  }
  const std::string word = word_at(root, "precision");
  if (word == "bfloat16") draft.assign("bf16", bool_node(true), "precision");
  if (word == "fp16") draft.assign("fp16", bool_node(true), "precision");
}

// Names that are read elsewhere or mean nothing here; Megatron-LM's rules about flags of that name are not GPT-NeoX's.
bool is_spoken_for(const std::string& key) {
  const Alias* alias = find_alias(names(), key);
  return alias != nullptr && alias->kind == kNoEffect;
}

}  // namespace

Result<Draft> read_gpt_neox_config(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kGptNeox;
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  draft.read_as = "GPT-NeoX";
  draft.names = names();
  PLIMSOLL_TRY(parsed, parse_json_or_yaml(file.text));
  if (!parsed.is_object()) return bad_input("wanted a table of keys");
  const Node root = in_key_spelling(parsed);
  for (const auto& [key, value] : root.members)
    if (!value.is_object() && !value.is_null() && !is_spoken_for(key)) draft.assign(key, value);
  PLIMSOLL_TRY(pipeline, size_at(root, "pipe_parallel_size"));
  PLIMSOLL_TRY(tensor, size_at(root, "model_parallel_size"));
  if (root.has("pipe_parallel_size"))
    draft.assign("pipeline_model_parallel_size", integer_node(pipeline), "pipe_parallel_size");
  if (root.has("model_parallel_size"))
    draft.assign("tensor_model_parallel_size", integer_node(tensor), "model_parallel_size");
  const bool describes_model = root.has("num_layers");
  if (const Node* kinds = root.find("attention_config"); kinds != nullptr)
    PLIMSOLL_TRY_STATUS(check_layer_kinds(*kinds));
  if (const Node* kinds = root.find("attention_config"); kinds != nullptr) read_attention(*kinds, draft);
  PLIMSOLL_TRY_STATUS(read_training_loop(root, draft));
  PLIMSOLL_TRY_STATUS(read_optimizer(root, draft));
  if (describes_model) {
    PLIMSOLL_TRY_STATUS(read_layers(root, draft));
    if (!root.has("vocab_size")) {
      draft.assign("vocab_size", integer_node(50277), "the tokenizer", true);
      draft.notes.emplace_back(
          "vocab_size: 50277 rows of GPT-NeoX's own tokenizer are assumed (--vocab-size changes that)");
    }
  }
  read_precision(root, draft);
  if (is_on(root, "checkpoint_activations", false)) {
    draft.assign("recompute_granularity", text_node("full"), "checkpoint_activations");
    draft.assign("recompute_method", text_node("uniform"), "checkpoint_activations");
    const Node* layers = root.find("checkpoint_num_layers");
    draft.assign("recompute_num_layers", layers == nullptr ? integer_node(1) : *layers, "checkpoint_num_layers");
  }
  if (const Node* zero = root.find("zero_optimization"); zero != nullptr && zero->is_object()) {
    const Node* stage = zero->find("stage");
    const bool shards = stage != nullptr && !is_off(*stage);
    if (stage != nullptr && stage->is_integer() && stage->integer > 1) {
      draft.assignments.push_back(
          {"use_distributed_optimizer", Node{}, file.path + ": zero_optimization.stage", false,
           fmt::format("ZeRO stage {} under GPT-NeoX's parallelism is not modelled", stage->integer), true});
    } else {
      draft.assign("use_distributed_optimizer", bool_node(shards), "zero_optimization.stage");
    }
    for (const std::string_view key : {"cpu_offload", "offload_optimizer", "offload_param"})
      if (const Node* offload = zero->find(key); offload != nullptr && !is_off(*offload) && !offload->is_object())
        return bad_input(
            fmt::format("zero_optimization.{}: offload under GPT-NeoX's parallelism is not modelled", key));
  }
  draft.assign("transformer_impl", text_node("local"), "GPT-NeoX's layers", true);
  draft.warnings.emplace_back("GPT-NeoX: its layers are counted as Megatron-LM's own (local) ones");
  return draft;
}

// num_layers beside DeepSpeed's or pipe-parallel-size: GPT-NeoX.
bool is_gpt_neox(const Node& root) {
  return has_any(root, {"pipe_parallel_size", "pipe-parallel-size"}) ||
         (has_any(root, {"model_parallel_size", "model-parallel-size"}) &&
          has_any(root, {"num_layers", "num-layers"})) ||
         has_any(root, {"pos_emb", "pos-emb"});
}

}  // namespace plimsoll::job
