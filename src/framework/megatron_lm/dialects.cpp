// SPDX-License-Identifier: Apache-2.0
// Programs that take Megatron-LM's flags and some of their own: Megatron-DeepSpeed (with BigScience's), ms-swift's
// megatron command, Pai-Megatron-Patch.
#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "framework/tools/dialects.h"
#include "framework/transformers/include.h"
#include "job/alias_rows.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

constexpr std::string_view kSwift = "ms-swift's megatron command";

const Alias kDeepSpeedRows[] = {
    {"deepspeed", kNoEffect},
    {"deepspeed_config", kNoEffect},  // read before the flags
    {"zero_stage", kNoEffect},
    {"checkpoint_activations", kNoEffect},  // becomes recompute_granularity
    {"checkpoint_num_layers", kNoEffect},
    {"deepspeed_activation_checkpointing", kNoEffect},
    {"partition_activations", kNotModelled, "checkpoints split over tensor ranks are counted whole"},
    {"contigious_checkpointing", kNoEffect},
    {"checkpoint_in_cpu", kNotModelled, "checkpoints on the host are counted on the GPU"},
    {"synchronize_each_layer", kNoEffect},
    {"profile_backward", kNoEffect},
    {"cpu_optimizer", kRefused, "DeepSpeed's CPU optimizer under Megatron's parallelism is not modelled"},
    {"mlp_type", kRefused, "DeepSpeed's experts are not modelled", "standard"},
    {"num_experts", kRefused, "DeepSpeed's experts are not modelled", "1"},
    {"ds_sequence_parallel_size", kRefused, "Ulysses sequence parallelism is not modelled", "1"},
    {"random_ltd", kRefused, "random layer-token dropping is not modelled"},
    {"curriculum_learning", kNotModelled, "every step is counted at the full sequence length"},
    {"curriculum_learning_legacy", kNotModelled, "every step is counted at the full sequence length"},
    {"embed_layernorm", kNotModelled, "the norm behind the embedding is not counted"},
    {"pp_partition_method", kNoEffect},  // read before the flags
    {"pad_vocab_size_to", kKey, "padded_vocab_size"},
    {"use_flash_attn_v1", kKey, "use_flash_attn"},
    {"use_flash_attn_v2", kKey, "use_flash_attn"},
    {"use_flash_attn_triton", kKey, "use_flash_attn"},
    {"use_bnb_optimizer", kRefused, "8-bit states under Megatron's parallelism are not modelled"},
    {"kd", kRefused, "knowledge distillation holds a teacher model that is not modelled"},
    {"mos", kRefused, "DeepSpeed's mixtures are not modelled"},
};

constexpr std::string_view kDeepSpeedNames = R"(
    no_pipeline_parallel deepscale deepscale_config memory_centric_tiled_linear tile_factor remote_device use_pin_memory
    scattered_embeddings split_transformers custom_token_counting universal_checkpoint reset_iteration load_iteration
    data_efficiency_curriculum_learning train_idx_path data_impl inference topk moe_* create_moe_param_group disable_mem_efficient_ln
    use_tutel hidden_size_teacher num_layers_teacher num_attention_heads_teacher load_teacher kd_* reduce_data_split_steps
    log_optimizer_states_to_tensorboard log_batch_size_to_tensorboard log_num_zeros_in_grad rescale_* no_load_lr_state
    kill_switch_path skip_train_iteration_range codecarbon_dir log_path abort_on_unmet_fused_kernel_constraints
    loss_on_targets_only reweight_loss_based_on_position_frequency noise_density mean_noise_span_length
    tokenizer_name_or_path pad_vocab_size_to_multiple_of train_tokens lr_decay_tokens lr_warmup_tokens
    eval_only sync_tp_duplicated_parameters normalize_attention_scores finetune_from num_key_value_heads_of aml_data_download_path cpu_torch_adam
)";

const Alias kCommonRows[] = {
    {"checkpoint_activations", kNoEffect},  // becomes recompute_granularity
    {"checkpoint_num_layers", kNoEffect},
    {"activations_checkpoint_method", kNoEffect},  // becomes recompute_granularity, too
    {"activations_checkpoint_num_layers", kNoEffect},
    {"tuner_type", kNoEffect},  // read before the flags
    {"train_type", kNoEffect},
    {"model", kNoEffect},
    {"target_modules", kKey, "lora_target_modules"},
    {"hf_config_path", kNoEffect},
    {"use_hf", kNoEffect},
    {"max_length", kKey, "seq_length"},
    {"padding_free", kNoEffect},
    {"packing", kKey, "packed_sequences"},
    {"extra_vocab_size", kNoEffect},
    {"max_padding_length", kNoEffect},
    {"attention_head_type", kNoEffect},  // becomes num_query_groups
    {"disable_bias_linear_fc", kNotModelled, "biases of the MLP are counted"},
    {"add_qkv_bias", kKey, "add_qkv_bias"},
    {"data_impl", kNoEffect},
    {"num_labels", kNotModelled, "the head of a classifier is counted as the language model's"},
    {"task_type", kNoEffect},
};

constexpr std::string_view kCommonNames = R"(
    dataset val_dataset load_from_cache_file split_dataset_ratio dataset_num_proc max_epochs lora_alpha model_author model_name
    load_safetensors save_safetensors merge_lora attention_backend_of no_save_optim_of freeze_vit freeze_aligner vit_gradient_checkpointing
    system template patch_tokenizer_type train_data valid_data dataset_config_of eod_token_id use_ema finetune_of cross_entropy_loss_fusion_of
    beta rpo_alpha loss_type desirable_weight undesirable_weight label_smoothing reference_free f_divergence_type
    train_mode task_list no_pipeline_parallel transformer_type log_straggler seq_of tokenizer_path config_path
)";

const std::vector<Alias>& deepspeed_names() {
  static const std::vector<Alias> table = with_names_without_effect(kDeepSpeedRows, kDeepSpeedNames);
  return table;
}

const std::vector<Alias>& common_names() {
  static const std::vector<Alias> table = with_names_without_effect(kCommonRows, kCommonNames);
  return table;
}

const LaunchFlag* find(const LaunchFlags& flags, std::string_view key) {
  const LaunchFlag* found = nullptr;
  for (const LaunchFlag& flag : flags.flags)
    if (key_of_flag(flag.written) == key) found = &flag;
  return found;
}

std::string value_of(const LaunchFlags& flags, std::string_view key) {
  const LaunchFlag* flag = find(flags, key);
  return flag == nullptr || flag->values.size() != 1 || !flag->values.front().unknown.empty()
             ? std::string{}
             : flag->values.front().text;
}

// The stage of the DeepSpeed file that the command names, or that the script writes.
Result<std::int64_t> stage_of_file(const std::string& name, const std::map<std::string, std::string>& files,
                                   const Draft& draft) {
  std::string text;
  if (const auto written = files.find(name); written != files.end()) {
    text = written->second;
  } else {
    PLIMSOLL_TRY(path, locate(name, parent_folder(draft.path)));
    PLIMSOLL_TRY(read, read_named_file(path));
    text = std::move(read);
  }
  if (trim(text).empty()) return bad_input(fmt::format("{}: its ZeRO stage needs a variable that is not set", name));
  PLIMSOLL_TRY(root, parse_json_or_yaml(text));
  const Node* zero = root.find("zero_optimization");
  const Node* stage = zero != nullptr && zero->is_object() ? zero->find("stage") : nullptr;
  if (stage == nullptr) return 0;
  return to_integer(*stage, Range{0, 3});
}

Status use_deepspeed(const LaunchFlags& flags, const std::map<std::string, std::string>& files, Draft& draft) {
  draft.read_as = "Megatron-DeepSpeed";
  draft.launch_is_whole = false;  // rules about flags and variables of Megatron-LM's own launch are not its own
  draft.names = deepspeed_names();
  std::int64_t stage = 0;
  const std::string given = value_of(flags, "zero_stage");
  if (!given.empty()) {
    PLIMSOLL_TRY(number, to_integer(text_node(given), Range{0, 3}));
    stage = number;
  } else if (const std::string config = value_of(flags, "deepspeed_config"); !config.empty()) {
    auto read = stage_of_file(config, files, draft);
    if (read) {
      stage = *read;
    } else {
      Assignment unknown{"use_distributed_optimizer", Node{}, draft.path + ": deepspeed_config", false,
                         read.error().message};
      draft.assignments.push_back(std::move(unknown));
      return {};
    }
  }
  if (stage >= 2) {
    Assignment refused{
        "use_distributed_optimizer",
        Node{},
        draft.path + ": zero_stage",
        false,
        fmt::format("ZeRO stage {} under Megatron's parallelism is not modelled; stages 0 and 1 are", stage),
        true};
    draft.assignments.push_back(std::move(refused));
    return {};
  }
  // "type:transformer|embedding" counts embedding and head as layers.
  if (value_of(flags, "pp_partition_method").find("embedding") != std::string::npos) {
    draft.assign("account_for_embedding_in_pipeline_split", bool_node(true), "--pp-partition-method");
    draft.assign("account_for_loss_in_pipeline_split", bool_node(true), "--pp-partition-method");
  }
  // In bf16 DeepSpeed's optimizer shards its states at stage 0, too.
  const bool shards = stage == 1 || find(flags, "bf16") != nullptr;
  draft.assign("use_distributed_optimizer", bool_node(shards), "zero_stage");
  draft.warnings.emplace_back(
      "Megatron-DeepSpeed: counted as Megatron-LM, with ZeRO stage 1 as its distributed optimizer");
  return {};
}

// Where they differ from Megatron-LM's: MegatronArguments of ms-swift 4 (swift/megatron/arguments/megatron_args.py).
void assign_swift_defaults(Draft& draft) {
  Node modules;
  modules.kind = Node::Kind::kArray;
  modules.items.push_back(text_node("core_attn"));
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, Node>>{{"bf16", bool_node(true)},
                                                           {"micro_batch_size", integer_node(1)},
                                                           {"global_batch_size", integer_node(16)},
                                                           {"use_distributed_optimizer", bool_node(true)},
                                                           {"recompute_granularity", text_node("selective")},
                                                           {"recompute_modules", modules},
                                                           {"attention_backend", text_node("flash")},
                                                           {"cross_entropy_loss_fusion", bool_node(true)},
                                                           {"expert_tensor_parallel_size", integer_node(1)},
                                                           {"moe_grouped_gemm", bool_node(true)},
                                                           {"moe_router_dtype", text_node("fp32")},
                                                           {"moe_token_dispatcher_type", text_node("alltoall")}})
    draft.assign(key, value, "ms-swift's default", true);
}

// "none" switches recomputation off there; Megatron-LM has no such word.
void settle_swift(Draft& draft) {
  const auto off = std::find_if(draft.assignments.begin(), draft.assignments.end(), [](const Assignment& given) {
    return given.key == "recompute_granularity" && given.value.is_string() && given.value.text == "none";
  });
  const bool is_full = std::any_of(draft.assignments.begin(), draft.assignments.end(), [](const Assignment& given) {
    return given.key == "recompute_granularity" && given.value.is_string() && given.value.text == "full";
  });
  const bool is_off = off != draft.assignments.end();
  if (is_off || is_full)
    std::erase_if(draft.assignments, [is_off](const Assignment& given) {
      return (given.weak && given.key == "recompute_modules") || (is_off && given.key == "recompute_granularity");
    });
  draft.environment.emplace("CUDA_DEVICE_MAX_CONNECTIONS", "1");  // set by swift/cli/_megatron where nobody does
}

// ms-swift's megatron command names the model and takes its shape from there.
Status use_swift(const LaunchFlags& flags, const std::string& model, Draft& draft) {
  draft.read_as = kSwift;
  const std::string tuning = lower(value_of(flags, "tuner_type") + value_of(flags, "train_type"));
  if (tuning == "lora") {
    draft.assign("peft", text_node("lora"), "tuner_type");
    draft.assign("target_modules", text_node("all-linear"), "ms-swift's default", true);
  } else if (!tuning.empty() && tuning != "full") {
    return bad_input(fmt::format("tuner_type: found '{}'; only full and lora are modelled", tuning));
  }
  assign_swift_defaults(draft);
  const std::string loop = lower(value_of(flags, "rlhf_type"));
  if (!loop.empty() && loop != "dpo" && loop != "kto")
    return bad_input(
        fmt::format("rlhf_type: '{}' under Megatron holds other models and heads, which are not modelled", loop),
        "plimsoll rl sizes GRPO and PPO runs");
  if (!loop.empty() && tuning != "lora") {
    draft.assign("reference_model", bool_node(true), "rlhf_type");
    draft.warnings.emplace_back("rlhf_type: the reference's forward pass is not in the step's time");
  }
  return name_model(model, draft);
}

// Chosen and rejected answers are two sequences of a micro-batch.
void double_pairs(Draft& draft) {
  const bool is_dpo = std::any_of(draft.assignments.begin(), draft.assignments.end(), [](const Assignment& given) {
    return given.key == "rlhf_type" && given.value.is_string() && lower(given.value.text) == "dpo";
  });
  std::erase_if(draft.assignments, [](const Assignment& given) { return given.key == "rlhf_type"; });
  if (!is_dpo) return;
  for (Assignment& given : draft.assignments) {
    if (given.key != "micro_batch_size" && given.key != "global_batch_size") continue;
    if (const auto size = to_integer(given.value, Range{1, 1 << 24})) given.value = integer_node(2 * *size);
  }
  draft.notes.push_back(fmt::format("{}: chosen and rejected answers are two sequences of a micro-batch", draft.path));
}

}  // namespace

namespace {

// Flags that Megatron-LM dropped (--DDP-impl and --data-impl in August and September 2023) or refuses (--checkpoint-
// activations since April 2023) and did before Transformer Engine's layers became its default (e7b74a4, April 2024); in
// those releases, and in Megatron-DeepSpeed, which left it earlier, the local layers are the default.
void use_layers_of_release(const LaunchFlags& flags, Draft& draft) {
  if (find(flags, "transformer_impl") != nullptr || draft.read_as == kSwift) return;
  for (const std::string_view old : {"checkpoint_activations", "activations_checkpoint_method", "DDP_impl", "data_impl",
                                     "distribute_checkpointed_activations", "model_parallel_size", "deepspeed"}) {
    if (find(flags, old) == nullptr) continue;
    draft.assign("transformer_impl", text_node("local"), fmt::format("--{}", replace(old, '_', '-')), true);
    draft.notes.push_back(
        fmt::format("{}: --{} is of a release whose default was its own (local) layers; they are "
                    "counted (--transformer-impl changes that)",
                    draft.path, replace(old, '_', '-')));
    return;
  }
}

}  // namespace

Status use_megatron_dialect(const LaunchFlags& flags, const std::map<std::string, std::string>& files, Draft& draft) {
  draft.names = common_names();
  if (find(flags, "deepspeed") != nullptr) PLIMSOLL_TRY_STATUS(use_deepspeed(flags, files, draft));
  if (const std::string model = value_of(flags, "model"); !model.empty())
    PLIMSOLL_TRY_STATUS(use_swift(flags, model, draft));
  if (find(flags, "checkpoint_activations") != nullptr) {
    draft.assign("recompute_granularity", text_node("full"), "--checkpoint-activations");
    draft.assign("recompute_method", text_node("uniform"), "--checkpoint-activations");
    const std::string layers = value_of(flags, "checkpoint_num_layers");
    draft.assign("recompute_num_layers", layers.empty() ? integer_node(1) : document::parse_scalar(layers),
                 "--checkpoint-num-layers");
  }
  // Releases between: a method is what switches it on.
  if (const std::string method = value_of(flags, "activations_checkpoint_method"); !method.empty()) {
    draft.assign("recompute_granularity", text_node("full"), "--activations-checkpoint-method");
    draft.assign("recompute_method", text_node(method), "--activations-checkpoint-method");
    const std::string layers = value_of(flags, "activations_checkpoint_num_layers");
    draft.assign("recompute_num_layers", layers.empty() ? integer_node(1) : document::parse_scalar(layers),
                 "--activations-checkpoint-num-layers");
  }
  use_layers_of_release(flags, draft);
  if (value_of(flags, "attention_head_type") == "multiquery") {  // of Megatron's forks for StarCoder and Falcon
    draft.assign("group_query_attention", bool_node(true), "--attention-head-type");
    draft.assign("num_query_groups", integer_node(1), "--attention-head-type");
  }
  return {};
}

void finish_megatron_dialect(Draft& draft) {
  if (draft.read_as == kSwift) {
    settle_swift(draft);
    double_pairs(draft);
  }
  // --position-embedding-type alibi and its like are the reader's; rotary was a flag of its own once.
  const auto given = [&draft](std::string_view key) {
    return std::any_of(draft.assignments.begin(), draft.assignments.end(),
                       [key](const Assignment& assignment) { return assignment.key == key; });
  };
  const bool names_groups = given("num_key_value_heads");
  if (!names_groups) return;
  for (Assignment& assignment : draft.assignments)
    if (assignment.key == "num_key_value_heads") assignment.key = "num_query_groups";
  draft.assign("group_query_attention", bool_node(true), "--num-key-value-heads", true);
}

}  // namespace plimsoll::job
