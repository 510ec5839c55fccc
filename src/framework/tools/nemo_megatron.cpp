// SPDX-License-Identifier: Apache-2.0
// YAML of tools that run Megatron-LM's layers under sections of their own: NeMo before 2.0 (trainer, model,
// exp_manager; examples/nlp/language_modeling/conf) and FlagScale (system, model, data). The values are Megatron-LM's
// arguments.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/folder.h"
#include "base/text.h"
#include "framework/megatron_lm/flags.h"
#include "framework/megatron_lm/tokenizer.h"
#include "framework/tools/sections.h"
#include "job/alias_rows.h"
#include "job/format.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kNemoRows[] = {
    {"encoder_seq_length", kKey, "seq_length"},
    {"activations_checkpoint_layers_per_pipeline", kRefused, "layers recomputed by stage are not modelled"},
    {"num_micro_batches_with_partial_activation_checkpoints", kRefused,
     "micro-batches that are recomputed in part are not modelled"},
    {"ub_tp_comm_overlap", kKey, "tp_comm_overlap"},
    {"bias", kKey, "add_bias_linear"},
    {"qkv_bias", kKey, "add_qkv_bias"},
    {"override_vocab_size", kKey, "vocab_size"},
    {"fsdp", kRefused, "PyTorch's FSDP under NeMo is not modelled"},
    {"sharp", kNoEffect},
    {"rampup_batch_size", kNoEffect},
};

// Initialisation, fusions that Megatron-LM has on as well, timers, files, and what is read below.
constexpr std::string_view kNemoWithoutEffect = R"(
    mcore_gpt mcore_bert megatron_amp_O2 activation precision transformer_engine megatron_legacy name hysteresis
    apply_query_key_layer_scaling normalize_attention_scores headscale openai_gelu onnx_safe pre_process post_process
    transformer_block_type attention_type native_amp_* grad_div_ar_fusion gradient_as_bucket_view persist_layer_norm
    grad_allreduce_chunk_size_mb batch_p2p_comm overlap_p2p_comm sync_batch_comm get_attention_mask_from_fusion
    ub_tp_comm_overlap_cfg use_emha reduce_amax tp_only_amax_red seq_len_interpolation_factor gc_interval use_scaled_init_method
    init_method_std layernorm_epsilon do_layer_norm_weight_decay ffn_dropout seed resume_from_checkpoint restore_from_path
    restore_from_ckpt apex_transformer_log_level dist_ckpt_* use_flash_attention scale_positional_embedding
    fp8_margin fp8_interval fp8_amax_history_len fp8_amax_compute_algo fp8_hybrid fp8_e4m3 fp8_params fp8_wgrad rotary_percentage rotary_interleaved use_cpu_initialization nccl_communicator_config_path fsdp_* deterministic_mode
    enable_megatron_timers logits_soft_cap apply_embedding_scaling layernorm_zero_centered_gamma bias_dropout_add_fusion
    defer_embedding_wgrad_compute wgrad_deferral_limit tp_comm_atomic_* validation_param_sync_overlap answer_only_loss
    activations_checkpoint_granularity activations_checkpoint_method activations_checkpoint_num_layers
    save_nemo_on_validation_end peft add_lm_head bert_binary_head add_pooler skip_train reset_lr reset_lr_steps nemo_path activations_checkpoint_recurrent
)";

const std::vector<Alias>& nemo_names() {
  static const std::vector<Alias> table = with_names_without_effect(kNemoRows, kNemoWithoutEffect);
  return table;
}

Draft megatron_draft(const InputFile& file, std::string_view tool) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kMegatronArgs;
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  draft.read_as = tool;
  return draft;
}

std::string word_of(const Node* table, std::string_view key) {
  const Node* value = is_table(table) ? table->find(key) : nullptr;
  return value == nullptr || value->is_null() || value->is_object() ? std::string{} : document::to_text(*value);
}

// GPUs of a node times nodes, where both are said.
void take_gpus(const Node* table, std::string_view per_node, std::string_view nodes, Draft& draft) {
  if (!is_table(table) || table->find(per_node) == nullptr || table->find(nodes) == nullptr) return;
  const auto devices = to_integer(*table->find(per_node), Range{1, 1 << 10});
  const auto machines = to_integer(*table->find(nodes), Range{1, 1 << 14});
  if (devices && machines) draft.assign("gpus", integer_node(*devices * *machines), per_node);
}

// A key of a section under its own path in messages.
void assign_in(std::string_view section, const std::string& key, const Node& value, Draft& draft) {
  if (value.is_null() || value.is_object()) return;
  draft.assign(key, value, fmt::format("{}.{}", section, key));
}

Status read_nemo_precision(const Node& root, Draft& draft) {
  const Node* model = root.find("model");
  std::string word = lower(word_of(root.find("trainer"), "precision"));
  if (word.empty()) word = lower(word_of(model, "precision"));
  const bool is_bf16 = word.find("bf16") != std::string::npos;
  const bool is_fp16 = !is_bf16 && word.find("16") != std::string::npos;
  if (is_bf16 || is_fp16) draft.assign(is_bf16 ? "bf16" : "fp16", bool_node(true), "trainer.precision");
  const Node* keeps = model->find("megatron_amp_O2");
  if ((is_bf16 || is_fp16) && (keeps == nullptr || is_off(*keeps)))
    draft.warnings.emplace_back(
        "megatron_amp_O2: off, so weights stay in fp32 and are cast layer by layer; they are counted in 16 bits with "
        "an "
        "fp32 copy in the optimizer");
  if (const Node* fp8 = model->find("fp8"); fp8 != nullptr && !is_off(*fp8)) {
    const Node* plain = model->find("fp8_e4m3");
    draft.assign("fp8", text_node(plain != nullptr && !is_off(*plain) ? "e4m3" : "hybrid"), "model.fp8");
    if (const Node* weights = model->find("fp8_params"); weights != nullptr && !is_off(*weights))
      draft.assign("fp8_param_gather", bool_node(true), "model.fp8_params");
  }
  return {};
}

Status read_nemo_layers(const Node& model, Draft& draft) {
  const std::string activation = lower(word_of(&model, "activation"));
  if (activation.ends_with("swiglu")) {
    draft.assign("swiglu", bool_node(true), "model.activation");
  } else if (activation == "squared-relu") {
    draft.assign("squared_relu", bool_node(true), "model.activation");
  } else if (activation.ends_with("glu")) {
    return bad_input(fmt::format("model.activation: found '{}'; gelu, swiglu and squared-relu are read", activation),
                     "--model with the model's config.json answers for its layers");
  }
  const std::string norm = lower(word_of(&model, "normalization"));
  draft.assign("normalization", text_node(norm == "rmsnorm" ? "RMSNorm" : "LayerNorm"), "model.normalization");
  if (const Node* groups = model.find("num_query_groups"); groups != nullptr && !groups->is_null())
    draft.assign("group_query_attention", bool_node(true), "model.num_query_groups");
  return {};
}

Status refuse_nemo_models(const Node& model) {
  for (const std::string_view other : {"retro", "hyena", "hybrid_override_pattern", "kd_teacher_restore_from_path",
                                       "mm_cfg", "encoder", "decoder", "griffin", "virtual_prompt_style"}) {
    const Node* table = model.find(other);
    if (table == nullptr || table->is_null()) continue;
    return bad_input(fmt::format("model.{}: such models of NeMo before 2.0 are not modelled", other));
  }
  return {};
}

// activations_checkpoint_*: Megatron's recomputation; "selective" looks at neither method nor number of layers.
void read_nemo_recompute(const Node& model, Draft& draft) {
  const std::string granularity = lower(word_of(&model, "activations_checkpoint_granularity"));
  if (granularity.empty() || granularity == "none") return;
  for (const std::string_view word : {"granularity", "method", "num_layers"}) {
    const std::string key = fmt::format("activations_checkpoint_{}", word);
    const Node* value = model.find(key);
    if (value == nullptr || value->is_null() || (granularity == "selective" && word != "granularity")) continue;
    draft.assign(fmt::format("recompute_{}", word), *value, fmt::format("model.{}", key));
  }
}

// The linears that NeMo's LoRA is put on; the names, and the query, key and value alone where none is said, are those
// of the comments in its megatron_gpt_finetuning_config.yaml.
Result<std::string> nemo_adapter_targets(const Node* listed) {
  if (listed == nullptr || listed->is_null()) return std::string("linear_qkv");
  std::string targets;
  for (const Node& item : listed->is_array() ? listed->items : std::vector<Node>{*listed}) {
    const std::string word = lower(document::to_text(item));
    std::string_view names;
    if (word == "attention_qkv") names = "linear_qkv";
    if (word == "attention_dense") names = "linear_proj";
    if (word == "mlp_fc1") names = "linear_fc1";
    if (word == "mlp_fc2") names = "linear_fc2";
    if (word == "attention") names = "linear_qkv linear_proj";
    if (word == "mlp") names = "linear_fc1 linear_fc2";
    if (word == "all") names = "linear_qkv linear_proj linear_fc1 linear_fc2";
    if (names.empty())
      return bad_input(
          fmt::format("model.peft.lora_tuning.target_modules: found '{}', wanted attention_qkv, "
                      "attention_dense, mlp_fc1, mlp_fc2, attention, mlp or all",
                      word));
    targets += fmt::format("{}{}", targets.empty() ? "" : " ", names);
  }
  return targets;
}

Status read_nemo_adapter(const Node& model, Draft& draft) {
  const Node* peft = model.find("peft");
  const std::string scheme = lower(word_of(peft, "peft_scheme"));
  if (scheme.empty() || scheme == "none" || scheme == "null") return {};
  if (scheme != "lora")
    return bad_input(fmt::format("model.peft.peft_scheme: found '{}'; of NeMo's adapters lora is modelled", scheme));
  const Node* lora = peft->find("lora_tuning");
  const Node* layers = is_table(lora) ? lora->find("layer_selection") : nullptr;
  if (layers != nullptr && !layers->is_null())
    return bad_input("model.peft.lora_tuning.layer_selection: adapters in some layers only are not modelled");
  draft.assign("peft", text_node("lora"), "model.peft.peft_scheme");
  const Node* rank = is_table(lora) ? lora->find("adapter_dim") : nullptr;
  draft.assign("lora_rank", rank == nullptr ? integer_node(32) : *rank, "model.peft.lora_tuning.adapter_dim",
               rank == nullptr);
  if (const Node* dropout = is_table(lora) ? lora->find("adapter_dropout") : nullptr; dropout != nullptr)
    draft.assign("lora_dropout", *dropout, "model.peft.lora_tuning.adapter_dropout");
  const Node* in_half = model.find("megatron_amp_O2");
  if (in_half != nullptr && !is_off(*in_half))
    draft.assign("adapter_dtype", text_node("bf16"), "model.megatron_amp_O2");
  PLIMSOLL_TRY(targets, nemo_adapter_targets(is_table(lora) ? lora->find("target_modules") : nullptr));
  draft.assign("lora_target_modules", text_node(targets), "model.peft.lora_tuning.target_modules");
  return {};
}

// Tuning restores a .nemo file, so the sizes of the model are not in the file; a launcher's `run` may name it.
Status read_nemo_tuned_model(const Node& root, const Node& model, Draft& draft) {
  const Node* train = model.find("data") == nullptr ? nullptr : model.find("data")->find("train_ds");
  if (is_table(train) && (train->has("max_src_seq_length") || train->has("src_file_name")))
    return bad_input("model.data: an encoder with a decoder of NeMo before 2.0 is not modelled");
  for (const auto& [key, target] :
       {std::pair("max_seq_length", "seq_length"), std::pair("micro_batch_size", "micro_batch_size"),
        std::pair("global_batch_size", "global_batch_size")}) {
    const Node* value = is_table(train) ? train->find(key) : nullptr;
    if (value == nullptr || !value->is_number() || model.has(target)) continue;
    draft.assign(target, *value, fmt::format("model.data.train_ds.{}", key));
  }
  if (const std::string name = word_of(root.find("run"), "model_train_name"); !name.empty())
    return name_model(name, draft);
  return {};
}

Status read_nemo_optimizer(const Node& model, Draft& draft) {
  const std::string name = lower(word_of(model.find("optim"), "name"));
  if (name.empty()) return {};
  if (name.find("distributed") != std::string::npos)
    draft.assign("use_distributed_optimizer", bool_node(true), "model.optim.name");
  const bool is_adam = name.find("adam") != std::string::npos || name == "mcore_distributed_optim";
  if (!is_adam) return bad_input(fmt::format("model.optim.name: the optimizer '{}' is not modelled", name));
  if (lower(word_of(model.find("optim"), "grad_sync_dtype")) == "bf16")
    draft.assign("grad_reduce_in_bf16", bool_node(true), "model.optim.grad_sync_dtype");
  return {};
}

}  // namespace

namespace {

// NeMo-Aligner's loops stand below the trainer.
Status refuse_aligner_loops(const Node& trainer) {
  for (const auto& [section, what] :
       {std::pair("knowledge_distillation", "distillation needs a teacher's outputs, which are"),
        std::pair("rm", "a reward model has another head and loss, which are"),
        std::pair("ppo", "runs of NeMo-Aligner are"), std::pair("reinforce", "runs of NeMo-Aligner are"),
        std::pair("rs", "runs of NeMo-Aligner are"), std::pair("spin", "SPIN generates between its steps, which is"),
        std::pair("dpo", "preference training of NeMo-Aligner is"),
        std::pair("kto", "preference training of NeMo-Aligner is")})
    if (is_table(trainer.find(section))) return bad_input(fmt::format("trainer.{}: {} not modelled", section, what));
  return {};
}

// Its models are restored from a file, too.
bool is_aligner(const Node& root) {
  const Node* model = root.find("model");
  const Node* start = root.find("pretrained_checkpoint");
  return is_table(start) && start->has("restore_from_path") && is_table(model) && model->has("mcore_gpt");
}

bool tunes_nemo_model(const Node& model) {
  return !model.has("num_layers") && is_table(model.find("data")) && is_table(model.find("data")->find("train_ds")) &&
         (model.has("restore_from_path") || model.has("restore_from_ckpt")) &&
         (model.has("megatron_amp_O2") || model.has("tensor_model_parallel_size"));
}

}  // namespace

bool is_nemo_megatron(const Node& root) {
  const Node* model = root.find("model");
  if (!is_table(model) || !is_table(root.find("trainer"))) return false;
  if (tunes_nemo_model(*model) || is_aligner(root)) return true;
  return model->has("num_layers") && model->has("hidden_size") &&
         (model->has("encoder_seq_length") || model->has("mcore_gpt"));
}

Result<Draft> read_nemo_megatron(const InputFile& file) {
  Draft draft = megatron_draft(file, "NeMo before 2.0");
  PLIMSOLL_TRY(root, parse_omega(file.text, file.path));
  const Node& model = *root.find("model");
  const bool tunes = tunes_nemo_model(model) || (is_aligner(root) && !model.has("num_layers"));
  PLIMSOLL_TRY_STATUS(refuse_aligner_loops(*root.find("trainer")));
  PLIMSOLL_TRY_STATUS(refuse_nemo_models(model));
  draft.names = nemo_names();
  for (const auto& [key, value] : model.members)
    if (key != "normalization" && key != "fp8") assign_in("model", key, value, draft);
  PLIMSOLL_TRY_STATUS(read_nemo_precision(root, draft));
  PLIMSOLL_TRY_STATUS(tunes ? read_nemo_tuned_model(root, model, draft) : read_nemo_layers(model, draft));
  read_nemo_recompute(model, draft);
  PLIMSOLL_TRY_STATUS(read_nemo_adapter(model, draft));
  PLIMSOLL_TRY_STATUS(read_nemo_optimizer(model, draft));
  take_gpus(root.find("trainer"), "devices", "num_nodes", draft);
  Node others = root;
  for (auto& [key, value] : others.members)
    if (key == "model") std::erase_if(value.members, [](const auto& member) { return member.first != "optim"; });
  keep_unread(others, "precision grad_sync_dtype accumulate_grad_batches limit_test_batches param_sync_dtype",
              "exp_manager run data", draft);
  const Node* tokenizer = model.find("tokenizer");
  for (const std::string_view key : {"type", "model", "vocab_file"})
    if (const std::string name = word_of(tokenizer, key); !name.empty()) take_vocabulary_of_tokenizer(name, draft);
  if (tunes) {
    settle_megatron(draft);
  } else {
    add_parser_defaults(draft);
  }
  return draft;
}

namespace {

// The program of an experiment: "experiment.task.entrypoint".
std::string flagscale_program(const Node& root) {
  const Node* experiment = root.find("experiment");
  return is_table(experiment) ? word_of(experiment->find("task"), "entrypoint") : std::string{};
}

// conf/train/1_5b.yaml has the sizes, conf/train.yaml names the program that they are for.
Status refuse_flagscale_programs(const Node& root, const std::string& path) {
  constexpr int kMostFiles = 64;
  constexpr std::uintmax_t kMostBytes = 1 << 16;
  std::vector<std::string> programs = {flagscale_program(root)};
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::absolute(path, failed).parent_path().parent_path();
  int files = 0;
  if (programs.front().empty() && !failed)
    for (const std::string& name : names_in(folder.string())) {
      if (++files == kMostFiles) break;
      const std::string path_of_it = (folder / name).string();
      std::error_code no_size;
      if (!name.ends_with(".yaml") || std::filesystem::file_size(path_of_it, no_size) > kMostBytes || no_size) continue;
      const auto text = read_named_file(path_of_it);
      const auto experiment = text ? document::parse_yaml(*text) : Result<Node>(Node{});
      if (experiment && experiment->is_object()) programs.push_back(flagscale_program(*experiment));
    }
  for (const std::string& program : programs)
    if (const std::string_view reason = why_not_modelled(program); !reason.empty())
      return bad_input(fmt::format("{}: {}", program, reason));
  return {};
}

}  // namespace

bool is_flagscale(const Node& root) {
  const Node* train = is_table(root.find("train")) ? root.find("train") : &root;
  const Node* system = train->find("system");
  const Node* model = train->find("model");
  return is_table(system) && is_table(model) && (model->has("num_layers") || system->has("tensor_model_parallel_size"));
}

Result<Draft> read_flagscale(const InputFile& file) {
  Draft draft = megatron_draft(file, "FlagScale");
  PLIMSOLL_TRY(root, parse_omega(file.text, file.path));
  PLIMSOLL_TRY_STATUS(refuse_flagscale_programs(root, file.path));
  const Node& train = is_table(root.find("train")) ? *root.find("train") : root;
  static const std::vector<Alias> names = with_names_without_effect(
      {}, "no_shared_fs hetero finetune legacy_tokenizer norm_init_weight norm_init_method_std");
  draft.names = names;
  for (const std::string_view section : {"system", "model"})
    for (const auto& [key, value] : train.find(section)->members) {
      assign_in(section, key, value, draft);
      if (!value.is_object() || key == "logging" || key == "checkpoint" || key == "straggler") continue;
      for (const auto& [inner, leaf] : value.members) assign_in(fmt::format("{}.{}", section, key), inner, leaf, draft);
    }
  if (const Node* data = train.find("data"); is_table(data))
    if (const Node* tokenizer = data->find("tokenizer"); is_table(tokenizer)) {
      for (const char* key : {"vocab_size", "make_vocab_size_divisible_by", "padded_vocab_size"})
        if (const Node* value = tokenizer->find(key); value != nullptr) assign_in("data.tokenizer", key, *value, draft);
      take_vocabulary_of_tokenizer(word_of(tokenizer, "tokenizer_path"), draft);
    }
  if (const Node* experiment = root.find("experiment"); is_table(experiment))
    take_gpus(experiment->find("runner"), "nproc_per_node", "nnodes", draft);
  add_parser_defaults(draft);
  return draft;
}

}  // namespace plimsoll::job
