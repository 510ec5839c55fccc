// SPDX-License-Identifier: Apache-2.0
// ms-swift's arguments (names from its examples; defaults as remembered): its own names and defaults over
// TrainingArguments.
#include <fmt/format.h>

#include "base/text.h"
#include "framework/tools/dialect_rows.h"
#include "framework/tools/dialects.h"
#include "framework/transformers/preference.h"
#include "job/alias_rows.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kMsSwiftRows[] = {
    {"sequence_parallel_size", kNoEffect},  // becomes context_parallel_size
    {"galore_quantization", kNoEffect},
    {"adapter_act", kNoEffect},
    {"adapter_length", kNoEffect},
    {"freeze_parameters", kRefused, "frozen layers are not modelled"},
    {"freeze_parameters_ratio", kRefused, "frozen layers are not modelled"},
    {"trainable_parameters", kRefused, "training of chosen parameters is not modelled"},
    {"use_galore", kRefused, "GaLore's projected states are not modelled"},
    {"lisa_activated_layers", kRefused, "LISA's changing layers are not modelled"},
    {"padding_free", kNoEffect},  // tokens of a batch without their padding: never more than are counted
    {"target_parameters", kNotModelled, "adapters on bare parameters are not counted"},
    {"device_map", kRefused, "layers spread over GPUs by a device map are not modelled", "auto"},
};

constexpr std::string_view kMsSwiftWithoutEffect = R"(
    dataset val_dataset split_dataset_ratio load_from_cache_file dataset_num_proc streaming system template model_author
    model_name custom_register_path external_plugins use_hf loss_scale lora_alpha lora_bias lora_dtype lorap_lr_ratio
    use_rslora init_weights add_version create_checkpoint_symlink loss_type metric max_new_tokens temperature
    save_only_model num_train_epochs dataset_shuffle data_seed truncation_strategy response_prefix max_pixels min_pixels
    problem_type task_type agent_template check_model tuner_backend adapters resume_only_model lazy_tokenize
    group_by_length packing_num_proc packing_cache interleave_prob stopping_strategy shuffle_buffer_size model_type
    columns strict ddp_timeout eval_limit eval_dataset eval_dataset_args eval_generation_config use_logits_to_keep
    ignore_args_error vit_lr aligner_lr vit_gradient_checkpointing acc_strategy swanlab_* use_swanlab logprobs cached_dataset
    sequence_parallel_mode norm_bbox template_backend rope_scaling max_model_len bnb_4bit_* hqq_axis loss remove_unused_columns
    train_dataloader_shuffle dataset_info callbacks enable_channel_loss safe_serialization new_special_tokens
    quant_method target_regex llm_lr merge_lora lmdeploy_* lora_ga_* vera_* quant_* max_batch_size max_shard_size mcore_adapter
    write_batch_size num_sampling_batch_size to_peft_format galore_proj_quant ref_adapters zero_hpz_partition_size deepspeed_autotp_size
)";

const std::vector<Alias>& names() {
  static const std::vector<Alias> table = with_names_without_effect(kMsSwiftRows, kMsSwiftWithoutEffect);
  return table;
}

Result<Node> from_ms_swift(const Node& root, Draft& draft) {
  draft.names = names();
  Translation to(root);
  const std::string loop = to.takes_word("rlhf_type");
  const bool distils = loop == "gkd" && root.has("teacher_model");  // which take_teacher() finds
  PLIMSOLL_TRY(preference, preference_named("rlhf_type", distils ? "" : loop));
  if (preference) {
    if (to.peek("per_device_train_batch_size") == nullptr) to.put("per_device_train_batch_size", integer_node(1));
    put_preference(*preference, to, draft);
  }
  std::string tuning = to.takes_word("tuner_type");
  if (tuning.empty()) tuning = to.takes_word("train_type");
  static_cast<void>(to.take("train_type"));
  if (tuning.empty()) tuning = "lora";  // its default
  if (tuning != "lora" && tuning != "full")
    return bad_input(fmt::format("tuner_type: found '{}'; only full and lora are modelled", tuning));
  const std::string task = to.takes_word("task_type");
  if (task == "embedding" || task == "reranker" || task == "generative_reranker") {
    static_cast<void>(to.take("loss_type"));
    draft.warnings.push_back(
        fmt::format("task_type: the head and loss of '{}' are counted as the language model's", task));
  }
  // The tower and its projector are frozen by default, the language model is not (swift/arguments/tuner_args.py).
  for (const auto& [own, target] :
       {std::pair{"freeze_vit", "freeze_vision_tower"}, std::pair{"freeze_aligner", "freeze_multi_modal_projector"}}) {
    const Node* given = to.take(own);
    if (given != nullptr || may_have_tower(to.peek("model")))
      to.put(target, given == nullptr ? bool_node(true) : *given, own);
    if (given != nullptr && is_off(*given) && tuning == "lora")
      draft.warnings.push_back(fmt::format("{}: adapters beside the language model are not counted", own));
  }
  const bool freezes_text = to.takes_true("freeze_llm");
  if (freezes_text && tuning != "lora") to.put("freeze_language_model", bool_node(true), "freeze_llm");
  to.rename("model", "model_name_or_path");
  if (!to.has("model_name_or_path")) to.rename("model_id_or_path", "model_name_or_path");
  const Node* rank = to.take("lora_rank");
  const Node* targets = to.take("target_modules");
  const std::string bits = to.takes_word("quant_bits");
  const bool twice =
      root.find("bnb_4bit_use_double_quant") == nullptr || !is_off(*root.find("bnb_4bit_use_double_quant"));
  static_cast<void>(to.take("bnb_4bit_use_double_quant"));
  to.put("use_peft", bool_node(tuning == "lora"), "tuner_type");
  if (tuning == "lora") {
    to.put("lora_r", rank == nullptr ? integer_node(8) : *rank, "lora_rank");
    to.put("lora_target_modules", targets == nullptr ? text_node("all-linear") : *targets, "target_modules");
    if (bits == "4") {
      to.put("load_in_4bit", bool_node(true));
      to.put("bnb_4bit_use_double_quant", bool_node(twice));
    } else if (bits == "8") {
      to.put("load_in_8bit", bool_node(true));
    }
  }
  const std::string dtype = to.takes_word("torch_dtype");
  const bool is_bf16 = dtype.empty() || dtype == "bfloat16" || dtype == "bf16";
  const bool is_fp16 = dtype == "float16" || dtype == "fp16";
  if (is_bf16 && !root.has("bf16") && !root.has("fp16")) to.put("bf16", bool_node(true));
  if (is_fp16 && !root.has("fp16")) to.put("fp16", bool_node(true));
  // Weights that fp16 trains whole are kept in fp32.
  to.put("load_dtype", text_node(is_bf16 ? "bf16" : is_fp16 && tuning == "lora" ? "fp16" : "fp32"));
  if (to.peek("per_device_train_batch_size") == nullptr) to.put("per_device_train_batch_size", integer_node(1));
  if (const Node* ranks = to.take("sequence_parallel_size"); ranks != nullptr && document::to_text(*ranks) != "1") {
    to.put("cp_size", *ranks, "sequence_parallel_size");
    draft.warnings.emplace_back(
        "sequence_parallel_size: Ulysses and ring attention are counted as context parallelism");
  }
  if (!root.has("gradient_checkpointing")) to.put("gradient_checkpointing", bool_node(true));
  const std::string attention = to.takes_word("attn_impl");
  if (attention == "flash_attn" || attention == "flash_attention_2" || attention == "flash_attention_3")
    to.put("attn_implementation", text_node("flash_attention_2"));
  if (attention == "sdpa" || attention == "eager") to.put("attn_implementation", text_node(attention));
  if (to.takes_true("packing")) to.put("packed_sequences", bool_node(true));
  if (const Node* deepspeed = root.find("deepspeed"); deepspeed != nullptr && deepspeed->is_string())
    if (auto preset = deepspeed_preset(deepspeed->text)) to.put("deepspeed", *std::move(preset));
  if (const Node* fsdp = root.find("fsdp"); fsdp != nullptr && fsdp->is_string() && lower(fsdp->text) == "fsdp2") {
    to.put("fsdp", bool_node(true));
  }
  return to.finish(draft);
}

}  // namespace

bool is_ms_swift(const Node& root) { return root.has("model") && has_any(root, {"tuner_type", "train_type"}); }

namespace {

constexpr Command kCommands[] = {{"swift", "sft pt rlhf"}, {"megatron", "sft pt rlhf"}};

bool starts(std::string_view program) {
  return program == "swift sft" || program == "swift pt" || program == "swift rlhf" || program == "swift.cli.sft" ||
         program.ends_with("swift/cli/sft.py");
}

}  // namespace

constinit const Dialect ms_swift_dialect = {FileKind::kMsSwift, "ms-swift", starts, nullptr, from_ms_swift, kCommands};

}  // namespace plimsoll::job
