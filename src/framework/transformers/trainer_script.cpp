// SPDX-License-Identifier: Apache-2.0
// Programs that take TrainingArguments and a few of their own on the command line: FastChat's, LLaVA's and Qwen's
// finetuning scripts, TRL's examples, DeepSpeed-Chat.
#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "framework/tools/dialect_rows.h"
#include "framework/transformers/common_words.h"
#include "framework/transformers/draft_heads.h"
#include "framework/transformers/teacher.h"
#include "framework/transformers/trained_parts.h"
#include "job/alias_rows.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kTransformersRows[] = {
    {"video_tower", kNotModelled, "the tower for video and its projector are not counted"},
    {"audio_tower", kNotModelled, "the tower for sound and its projector are not counted"},
    {"speech_encoder", kNotModelled, "the tower for sound and its projector are not counted"},
    {"vision_lora", kNotModelled, "adapters of the tower for images are not counted"},
    {"seq_parallel_size", kKey, "context_parallel_size"},
    {"mm_projector_type", kKey, "mm_projector_type"},
    {"w_bits", kNotModelled, "weights that are rounded as they are used are not counted", "16"},
    {"a_bits", kNotModelled, "activations that are rounded as they are used are not counted", "16"},
    {"k_bits", kNotModelled, "keys that are rounded as they are used are not counted", "16"},
    {"v_bits", kNotModelled, "values that are rounded as they are used are not counted", "16"},
    {"kv_bits", kNotModelled, "keys and values that are rounded as they are used are not counted", "16"},
    {"low_rank_training", kRefused, "adapters of LongLoRA, with norms and embeddings trained, are not modelled"},
    {"use_lisa", kRefused, "LISA's layers, which change as it trains, are not modelled"},
    {"lisa_activated_layers", kNoEffect},
    {"lisa_interval_steps", kNoEffect},
    {"actor_model_name_or_path", kRefused, "reinforcement training is not modelled here"},
    {"lora_bias", kNotModelled, "biases of adapters are not counted", "none"},
    {"bits", kNoEffect},  // read with the adapter
    {"block_size", kKey, "seq_length"},
    {"offload_reference_model", kNoEffect},
    {"use_flash_attn", kNoEffect},
};

constexpr std::string_view kTransformersWithoutEffect = R"(
    data_path eval_data_path image_folder version lazy_preprocess mm_* image_aspect_ratio group_by_modality_length
    pretrain_mm_mlp_adapter dataset_name dataset_config dataset_config_name dataset_train_split dataset_test_split
    train_file validation_file preprocessing_num_workers data_split data_output_path num_warmup_steps print_loss
    enable_tensorboard tensorboard_path lora_learning_rate lora_module_name only_optimize_lora fix_length lora_weight_path
    q_lora vision_lr merger_lr mm_projector_lr per_device_eval_batch_size local_rank master_port num_workers overwrite_cache max_train_samples max_eval_samples
    conv_template vision_select_layer image_grid_pinpoints double_quant quant_type eval_file
    dtype_of_data template_name prompt_type train_data val_data add_eot_token keep_end_of_conversation_token
    inference_tp_size tp_gather_partition_size compute_fp32_loss eval_interval eval_iters cache_dir log_file cuda
    task_name do_lower_case config_name tokenizer_name use_fast_tokenizer use_auth_token low_cpu_mem_usage token
)";

const std::vector<Alias>& names() {
  static const std::vector<Alias> table = with_names_without_effect(kTransformersRows, kTransformersWithoutEffect);
  return table;
}

bool is_on(const Node* value) {
  return value != nullptr && !is_off(*value) &&
         !(value->is_string() && (value->text.empty() || value->text == "False"));
}

// --deepspeed without a value: DeepSpeed-Chat makes its configuration of its own flags.
Status read_deepspeed_chat(const Node& root, Translation& to) {
  const Node* on = root.find("deepspeed");
  if (on == nullptr || !on->is_bool()) return {};
  static_cast<void>(to.take("deepspeed"));
  const Node* stage = to.take("zero_stage");
  Node zero;
  zero.kind = Node::Kind::kObject;
  zero.members.emplace_back("stage", stage == nullptr ? integer_node(0) : *stage);
  if (to.takes_true("offload")) {
    Node device;
    device.kind = Node::Kind::kObject;
    device.members.emplace_back("device", text_node("cpu"));
    zero.members.emplace_back("offload_optimizer", device);
    zero.members.emplace_back("offload_param", device);
  }
  const std::string dtype = to.takes_word("dtype");
  if (!is_on(root.find("bf16")) && !is_on(root.find("fp16")))
    to.put(dtype == "bf16" ? "bf16" : "fp16", bool_node(true));
  Node config;
  config.kind = Node::Kind::kObject;
  config.members.emplace_back("zero_optimization", std::move(zero));
  to.put("deepspeed", std::move(config));
  return {};
}

// Embedders and rerankers: a query comes with a group of passages, each a sequence of its own.
void read_groups(const Node& root, Translation& to, Draft& draft) {
  const Node* group = to.take("train_group_size");
  const Node* queries = to.take("query_max_len");
  const Node* passages = to.take("passage_max_len");
  const auto count = group == nullptr ? tl::expected<std::int64_t, Error>(1) : to_integer(*group, Range{1, 1 << 16});
  const Node* batch = root.find("per_device_train_batch_size");
  const auto rows = batch == nullptr ? tl::expected<std::int64_t, Error>(0) : to_integer(*batch, Range{1, 1 << 20});
  if (group != nullptr && count && rows && *rows > 0) {
    to.put("per_device_train_batch_size", integer_node(*count * *rows), "train_group_size");
    draft.notes.push_back(
        fmt::format("{}: train_group_size: the {} passages of each query are counted as sequences; the queries are not",
                    draft.path, *count));
  }
  const Node* longest = passages != nullptr ? passages : queries;
  if (longest != nullptr && !root.has("max_length")) to.put("max_length", *longest, "passage_max_len");
}

// "--task DPO --dpo_beta 0.1": the loop by a word of the program's own, in the words of TRL.
void read_method(const Node& root, Translation& to) {
  to.rename("dpo_beta", "beta");
  if (root.has("loss_type")) return;
  for (const std::string_view key : {"task", "stage", "method", "train_method", "training_method", "algorithm"}) {
    const Node* word = root.find(key);
    if (word == nullptr || !word->is_string()) continue;
    const std::string name = lower(word->text);
    const std::string_view loss = name == "dpo" || name == "ipo"                       ? "sigmoid"
                                  : name == "kto"                                      ? "kto"
                                  : name == "orpo" || name == "simpo" || name == "cpo" ? "simpo"
                                  : name == "rm" || name == "reward"                   ? "reward"
                                                                                       : "";
    if (loss.empty()) continue;
    static_cast<void>(to.take(key));
    to.put("loss_type", text_node(std::string(loss)), key);
  }
}

// "--lora_config lora.json": PEFT's words in a file of their own.
Result<bool> adapter_in_file(const Node& root, Translation& to, const Draft& draft) {
  for (const std::string_view key : {"lora_config", "peft_config", "lora_config_path", "lora_hyperparams_file"}) {
    const Node* name = root.find(key);
    if (name == nullptr || !name->is_string() || !name->text.ends_with(".json")) continue;
    const auto found = locate(name->text, parent_folder(draft.path));
    if (!found) continue;
    PLIMSOLL_TRY(text, read_named_file(*found));
    auto config = parse_json_or_yaml(text);
    if (!config) return tl::make_unexpected(std::move(config.error()).with_context(*found));
    if (!config->is_object()) continue;
    const Node* rank = config->find("r") != nullptr ? config->find("r") : config->find("lora_r");
    if (rank == nullptr) continue;
    static_cast<void>(to.take(key));
    to.put("lora_r", *rank, key);
    for (const std::string_view targets : {"target_modules", "lora_target_modules"})
      if (const Node* listed = config->find(targets); listed != nullptr && !to.has("lora_target_modules"))
        to.put("lora_target_modules", *listed, key);
    if (const Node* dropout = config->find("lora_dropout"); dropout != nullptr) to.put("lora_dropout", *dropout, key);
    return true;
  }
  return false;
}

}  // namespace

Result<Node> from_trainer_script(const Node& arguments, Draft& draft) {
  PLIMSOLL_TRY_STATUS(refuse_draft_heads(arguments));
  draft.names = names();
  const Node root = in_words_of_trainer(arguments, draft);
  Translation to(root);
  for (const std::string_view key : {"max_seq_len", "max_source_length", "context_length"})
    to.rename(key, "max_length");
  if (root.has("max_length")) to.put("max_length", *root.find("max_length"));
  for (const std::string_view key : {"use_liger", "enable_liger_kernel"}) to.rename(key, "use_liger_kernel");
  if (!root.has("model_name_or_path"))
    for (const std::string_view key :
         {"model_path", "pretrained_model_name_or_path", "pretrained_model_path", "base_model", "model_id"})
      if (!to.has("model_name_or_path")) to.rename(key, "model_name_or_path");
  // "--optimizer adam_mini": a name that only the Trainer's list has.
  if (const Node* name = root.find("optimizer"); name != nullptr && name->is_string() && !root.has("optim"))
    if (!from_name<OptimizerKind>(lower(name->text))) to.rename("optimizer", "optim");
  if (is_on(root.find("use_kd")) && !std::any_of(root.members.begin(), root.members.end(),
                                                 [](const auto& member) { return names_teacher(member.first); }))
    draft.warnings.emplace_back(
        "use_kd: a second model answers beside this one, which no flag names; it is not counted "
        "(--teacher-model)");
  static_cast<void>(to.take("use_kd"));
  // "--loss_type $4" where nothing is given for it.
  if (const Node* loss = root.find("loss_type"); loss != nullptr && loss->is_string() && loss->text.empty())
    static_cast<void>(to.take("loss_type"));
  read_groups(root, to, draft);
  read_method(root, to);
  // Modules that adapters leave out, under a name of the program's own.
  for (const auto& [key, value] : root.members)
    if (key.find("lora") != std::string::npos && key.find("exclude") != std::string::npos)
      to.rename(key, "exclude_modules");
  // A second model beside the one that is trained, whatever the loss.
  for (const std::string_view key :
       {"ref_model_path", "ref_model_name_or_path", "reference_model_name_or_path", "ref_name_or_path"})
    if (const Node* path = to.take(key); is_on(path) && path->is_string() && !root.has("precompute_ref_log_probs"))
      to.put("reference_model", bool_node(true), key);
  PLIMSOLL_TRY_STATUS(read_deepspeed_chat(root, to));
  if (const Node* config = to.take("deepspeed_config"); config != nullptr && !root.has("deepspeed"))
    to.put("deepspeed", *config);
  PLIMSOLL_TRY_STATUS(read_trained_parts(root, to, draft));
  if (is_on(to.take("use_flash_attn")) && !root.has("attn_implementation"))
    to.put("attn_implementation", text_node("flash_attention_2"), "use_flash_attn");
  bool lora = is_on(root.find("use_peft"));
  bool has_switch = root.has("use_peft");
  for (const std::string_view key :
       {"lora_enable", "lora_enabled", "use_lora", "use_qlora", "use_peft_lora", "qlora", "qlora_enabled", "lora"})
    if (root.has(key)) {
      has_switch = true;
      lora = is_on(to.take(key)) || lora;
    }
  // A program of adapters alone needs no switch: its rank says it, or a rank over a quantised base.
  const Node* rank = to.take("lora_rank");
  PLIMSOLL_TRY(adapter, adapter_in_file(root, to, draft));
  has_switch = has_switch || adapter;
  lora = lora || adapter;
  std::string bits = to.takes_word("bits");
  const bool is_base_quantised = bits == "4" || bits == "8" || is_on(root.find("load_in_4bit"));
  const bool trains_all = is_on(to.take("full_finetune"));
  const bool names_targets = root.has("lora_target_modules") || root.has("target_modules") || root.has("lora_modules");
  const bool has_rank = is_on(root.find("lora_r"));
  if (!has_switch && !trains_all && (is_on(rank) || (has_rank && (is_base_quantised || names_targets)))) {
    lora = true;
    draft.notes.push_back(fmt::format("{}: {} is given and no switch; adapters are trained", draft.path,
                                      is_on(rank)         ? "lora_rank"
                                      : is_base_quantised ? "lora_r over a quantised base"
                                                          : "lora_r with its modules"));
  }
  for (const std::string_view key : {"quant_bit", "load_in_kbits", "quantization_bit"})
    if (std::string word = to.takes_word(key); bits.empty()) bits = std::move(word);
  bool four = bits == "4" || bits == "true" || bits.find("4bit") != std::string::npos || bits == "nf4" ||
              bits == "int4" || is_on(root.find("use_qlora")) || is_on(root.find("qlora")) ||
              is_on(root.find("qlora_enabled"));
  for (const std::string_view key : {"q_lora", "use_4bit_quantization", "use_4bit"}) four = is_on(to.take(key)) || four;
  if (bits == "8" || is_on(to.take("use_8bit_quantization"))) to.put("load_in_8bit", bool_node(true));
  static_cast<void>(to.take("use_nested_quant"));
  static_cast<void>(to.take("bnb_4bit_quant_storage_dtype"));
  static_cast<void>(to.take("use_8bit_qunatization"));
  const Node* dimension = to.take("lora_dim");
  const bool adapters_alone = is_on(to.take("only_optimize_lora"));
  if (is_on(dimension) && !adapters_alone) {
    draft.warnings.emplace_back(
        "lora_dim: without --only_optimize_lora every weight is trained; the adapters beside them are not counted");
    dimension = nullptr;
  }
  if (lora || is_on(dimension)) {
    to.put("use_peft", bool_node(true));
    if (is_on(dimension)) to.put("lora_r", *dimension);
    if (is_on(rank) && !is_on(dimension) && !root.has("lora_r")) to.put("lora_r", *rank, "lora_rank");
    // Qwen's finetune.py has a rank of its own where --lora_r is not given.
    if (root.has("use_lora") && !root.has("lora_r") && !root.has("lora_rank")) to.put("lora_r", integer_node(64));
    const Node* listed = nullptr;
    for (const std::string_view key : {"lora_target_modules", "target_modules", "trainable", "lora_trainable"})
      if (const Node* given = to.take(key); given != nullptr && listed == nullptr) listed = given;
    const bool is_left_open = listed != nullptr && listed->is_string() && lower(listed->text) == "auto";
    if (is_left_open)
      draft.notes.push_back(fmt::format(
          "{}: lora_target_modules: the program chooses; every linear layer is counted (--lora-target-modules)",
          draft.path));
    const bool takes_all = listed == nullptr || is_left_open || (listed->is_string() && lower(listed->text) == "all");
    if (!to.has("lora_target_modules")) to.put("lora_target_modules", takes_all ? text_node("all-linear") : *listed);
    if (four) {
      to.put("load_in_4bit", bool_node(true));
      to.put("bnb_4bit_use_double_quant", bool_node(true));
    }
  }
  return to.finish(draft);
}

}  // namespace plimsoll::job
