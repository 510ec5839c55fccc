// SPDX-License-Identifier: Apache-2.0
// TrainingArguments of Transformers, also as TRL extends them (SFTConfig, ModelConfig), as JSON or YAML.
// FSDP and DeepSpeed may be inside or in files that they name.
#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "framework/tools/dialect_rows.h"
#include "framework/transformers/common_words.h"
#include "framework/transformers/include.h"
#include "framework/transformers/preference.h"
#include "framework/transformers/saved_arguments.h"
#include "framework/transformers/trained_parts.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

bool given(const Draft& draft, std::string_view key) {
  return std::any_of(draft.assignments.begin(), draft.assignments.end(),
                     [key](const Assignment& a) { return a.key == key; });
}

bool is_true(const Node* value) {
  if (value == nullptr) return false;
  const auto flag = to_bool(*value);
  return flag && *flag && !(value->is_string() && value->text.empty());
}

// "full_shard auto_wrap offload", ["full_shard", "auto_wrap"] or true.
Status read_fsdp(const Node& root, Draft& draft) {
  const Node* fsdp = root.find("fsdp");
  if (fsdp == nullptr || is_off(*fsdp) || (fsdp->is_string() && trim(fsdp->text).empty())) return {};
  draft.framework = Framework::kFsdp2;
  std::vector<std::string> words;
  // ms-swift's: a file in place of the words, or a name for FSDP2.
  const bool is_file = fsdp->is_string() && fsdp->text.ends_with(".json");
  const bool is_preset = fsdp->is_string() && (fsdp->text == "fsdp2" || fsdp->text == "fsdp");
  if (!fsdp->is_bool() && !is_file && !is_preset) {
    PLIMSOLL_TRY(listed, to_words(*fsdp));
    words = std::move(listed);
  }
  const auto says = [&words](std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  Node config;
  config.kind = Node::Kind::kObject;
  if (const Node* table = is_file ? fsdp : root.find("fsdp_config"); table != nullptr) {
    if (table->is_object()) config = *table;
    if (table->is_string() && !table->text.empty()) {
      PLIMSOLL_TRY(path, locate(table->text, parent_folder(draft.path)));
      PLIMSOLL_TRY(text, read_named_file(path));
      PLIMSOLL_TRY(loaded, parse_json_or_yaml(text));
      config = std::move(loaded);
      if (const Node* inner = config.find("fsdp_config"); inner != nullptr && inner->is_object()) {
        const Node table_inside = *inner;
        config = table_inside;
      }
    }
  }
  for (const std::string_view word : {"full_shard", "shard_grad_op", "hybrid_shard", "hybrid_shard_zero2", "no_shard"})
    if (says(word) && !config.has("reshard_after_forward") && !config.has("fsdp_reshard_after_forward"))
      config.members.emplace_back("sharding_strategy", text_node(std::string(word)));
  if (says("offload")) config.members.emplace_back("offload_params", bool_node(true));
  for (const std::string& word : words)
    if (word != "full_shard" && word != "shard_grad_op" && word != "hybrid_shard" && word != "hybrid_shard_zero2" &&
        word != "no_shard" && word != "offload" && word != "auto_wrap")
      return bad_input(
          fmt::format("fsdp: '{}' is not one of full_shard, shard_grad_op, hybrid_shard, no_shard, offload, "
                      "auto_wrap",
                      word));
  // Transformers 5 takes FSDP2 where no version is given and drops the words; up to 4 it was FSDP1, which alone has
  // hybrid sharding and none (training_args.py, _process_fsdp_args of 5.16).
  if (!words.empty() && !config.has("version") && !config.has("fsdp_version")) {
    if (says("hybrid_shard") || says("hybrid_shard_zero2") || says("no_shard")) {
      config.members.emplace_back("version", integer_node(1));
      draft.notes.push_back(fmt::format("{}: fsdp: FSDP1, which alone has these words", draft.path));
    } else {
      draft.notes.push_back(fmt::format(
          "{}: fsdp: FSDP2, as Transformers 5 takes it; up to 4 it was FSDP1 (--sharding fsdp1)", draft.path));
    }
  }
  const Node* recomputes = config.find("activation_checkpointing");
  if (is_true(root.find("gradient_checkpointing")) && is_true(recomputes))  // rules.md R305
    draft.assignments.push_back(
        {"gradient_checkpointing", Node{}, draft.path, false,
         "activation checkpointing is on twice: gradient_checkpointing and fsdp_config.activation_checkpointing"});
  return read_fsdp_config(config, FsdpOptions{2, true}, draft);
}

Status read_deepspeed(const Node& root, Draft& draft) {
  const Node* deepspeed = root.find("deepspeed");
  if (deepspeed == nullptr || is_off(*deepspeed) || (deepspeed->is_string() && deepspeed->text.empty())) return {};
  draft.framework = Framework::kDeepSpeed;
  if (deepspeed->is_object()) {
    PLIMSOLL_TRY(part, read_deepspeed_tree(*deepspeed, draft.path + ": deepspeed"));
    draft.parts.push_back(std::move(part));
    return {};
  }
  PLIMSOLL_TRY(name, to_word(*deepspeed));
  PLIMSOLL_TRY(part, include_deepspeed_file(name, parent_folder(draft.path)));
  draft.parts.push_back(std::move(part));
  return {};
}

// Evaluation runs only where a strategy asks for it.
Status read_evaluation(const Node& root, Draft& draft) {
  const Node* strategy = root.find("eval_strategy");
  if (strategy == nullptr) strategy = root.find("evaluation_strategy");
  if (strategy == nullptr || is_off(*strategy)) return {};
  PLIMSOLL_TRY(word, to_word(*strategy));
  if (lower(word.substr(word.rfind('.') + 1)) == "no") return {};
  const Node* batch = root.find("per_device_eval_batch_size");
  draft.assign("eval_micro_batch_size", batch == nullptr || batch->is_null() ? integer_node(8) : *batch,
               "per_device_eval_batch_size");
  const Node* writes = root.find("predict_with_generate");
  if (writes == nullptr || is_off(*writes)) return {};
  constexpr std::int64_t kUsualLength = 20;  // max_length of a GenerationConfig
  const auto given = [&root](std::string_view key) {
    const Node* value = root.find(key);
    return value != nullptr && !value->is_null() ? value : nullptr;
  };
  const Node* length = given("generation_max_length");
  draft.assign("eval_generated_tokens", length == nullptr ? integer_node(kUsualLength) : *length,
               "generation_max_length", length == nullptr);
  if (const Node* beams = given("generation_num_beams")) draft.assign("eval_beams", *beams, "generation_num_beams");
  return {};
}

// Arguments of a program of its own that has a rank and no switch: it trains adapters alone.
bool trains_adapters_alone(const Node& root, const Draft& draft) {
  if (!draft.names.empty() || !draft.read_as.empty() || root.has("use_peft")) return false;
  for (const std::string_view key : {"packing", "dataset_text_field", "loss_type", "completion_only_loss"})
    if (root.has(key)) return false;  // TRL's, where adapters have to be switched on
  const Node* rank = root.find("lora_r");
  return rank != nullptr && !is_off(*rank);
}

Status read_adapter(const Node& root, Draft& draft) {
  if (trains_adapters_alone(root, draft)) {
    draft.assign("peft", text_node("lora"), "lora_r");
    draft.assign("lora_rank", *root.find("lora_r"), "lora_r");
    draft.notes.push_back(
        fmt::format("{}: lora_r is given and no switch; adapters are trained (--peft none)", draft.path));
    const Node* targets = root.find("lora_target_modules");
    return read_targets(targets == nullptr ? text_node("all-linear") : *targets, "lora_target_modules", draft);
  }
  if (!is_true(root.find("use_peft"))) {
    if (root.has("lora_r") || root.has("lora_target_modules"))
      draft.warnings.emplace_back("use_peft: is not on, so the lora_* keys have no effect");
    return {};
  }
  draft.assign("peft", text_node(is_true(root.find("use_dora")) ? "dora" : "lora"), "use_peft");
  if (const Node* rank = root.find("lora_r"); rank != nullptr) {
    draft.assign("lora_rank", *rank, "lora_r");
  } else {
    draft.assign("lora_rank", integer_node(16), "lora_r", true);  // TRL's ModelConfig
  }
  if (const Node* dropout = root.find("lora_dropout"); dropout != nullptr) draft.assign("lora_dropout", *dropout);
  save_classifier(root.find("lora_task_type"), draft);
  const Node* targets = root.find("lora_target_modules");
  return read_targets(targets == nullptr ? Node{} : *targets, "lora_target_modules", draft);
}

// SFTConfig changes three of Trainer's defaults (facts other-frameworks-memory.md 2.5).
void use_trl_defaults(const Node& arguments, const Node& root, Draft& draft) {
  constexpr std::string_view kOnlyInTrl[] = {
      "packing",      "padding_free",          "completion_only_loss", "assistant_only_loss",
      "loss_type",    "dataset_text_field",    "dataset_num_proc",     "dataset_kwargs",
      "eval_packing", "activation_offloading", "chat_template_path",   "use_peft"};
  // Of DPOConfig and KTOConfig, which have the same defaults. A loss_type may be the reader's own word for a program's
  // name, and says nothing.
  constexpr std::string_view kPreference[] = {"beta", "precompute_ref_log_probs", "sync_ref_model", "desirable_weight"};
  if (!draft.read_as.empty()) return;  // another tool, with defaults of its own
  // Programs beside TRL have adapters, too.
  const bool is_trl = std::any_of(std::begin(kOnlyInTrl), std::end(kOnlyInTrl), [&](std::string_view key) {
    return root.has(key) && (key != "use_peft" || draft.names.empty());
  });
  const bool prefers = std::any_of(std::begin(kPreference), std::end(kPreference),
                                   [&](std::string_view key) { return arguments.has(key); });
  if (!is_trl && !prefers) return;
  const bool half_given = root.has("bf16") || root.has("fp16");
  if (!half_given) draft.assign("bf16", bool_node(true), "TRL's default", true);
  if (!given(draft, "gradient_checkpointing"))
    draft.assign("gradient_checkpointing", bool_node(true), "TRL's default", true);
  if (!given(draft, "max_length") && !given(draft, "max_seq_length") && !given(draft, "seq_length"))
    draft.assign("seq_length", integer_node(1024), "TRL's default", true);
  const bool has_loss = given(draft, "loss");
  if (!has_loss && !is_true(root.find("use_liger_kernel")))
    draft.assign("loss", text_node("chunked"), "TRL's default", true);
  draft.warnings.push_back(
      fmt::format("TRL: its defaults are used where the file says nothing (bf16, gradient_checkpointing, max_length "
                  "1024{})",
                  has_loss ? "" : ", chunked loss"));
}

// Of accelerate's switches one moves bytes: without it gradients of sharded weights wait unsharded while micro-batches
// are accumulated.
Status read_accelerator_config(const Node& value, Draft& draft) {
  const Node* options = value.is_object() ? value.find("gradient_accumulation_kwargs") : nullptr;
  const Node* each = options != nullptr && options->is_object() ? options->find("sync_each_batch") : nullptr;
  if (each == nullptr || each->is_null()) return {};
  auto flag = to_bool(*each);
  if (!flag)
    return bad_input(
        fmt::format("accelerator_config.gradient_accumulation_kwargs.sync_each_batch: {}", flag.error().message));
  draft.assign("sync_each_micro_batch", bool_node(*flag), "sync_each_batch");
  return {};
}

Status read_key(const std::string& key, const Node& value, Draft& draft) {
  constexpr std::string_view kElsewhere[] = {"fsdp",
                                             "fsdp_config",
                                             "deepspeed",
                                             "eval_strategy",
                                             "use_peft",
                                             "use_dora",
                                             "lora_r",
                                             "lora_target_modules",
                                             "lora_dropout",
                                             "evaluation_strategy",
                                             "per_device_eval_batch_size",
                                             "predict_with_generate",
                                             "generation_max_length",
                                             "generation_num_beams",
                                             "fsdp_min_num_params",
                                             "fsdp_transformer_layer_cls_to_wrap"};
  if (std::find(std::begin(kElsewhere), std::end(kElsewhere), key) != std::end(kElsewhere)) return {};
  if (key == "accelerator_config") return {};  // read behind fsdp_config, which has a default for it
  if (key == "optim_args") return read_optimizer_arguments(value, draft);
  if (key == "optim") return value.is_null() ? Status{} : read_optimizer_name(value, key, draft);
  if (key == "model_name_or_path" || key == "model_id" || key == "model_name") {
    return value.is_string() ? name_model(value.text, draft) : Status{};
  }
  if (key == "quantization_config") {
    if (value.is_object()) read_quantization(value, draft);
    return {};
  }
  if (key == "bf16" || key == "fp16") {
    // Off is only the default: an accelerate file beside this one may still turn it on.
    if (!value.is_null()) draft.assign(key, value, key, is_off(value));
    return {};
  }
  if (key == "torch_dtype" || key == "dtype") {
    if (value.is_null() || (value.is_string() && value.text == "auto")) return {};
    draft.assign("load_dtype", value, key);
    return {};
  }
  if (key == "attn_implementation" && value.is_string()) {
    // Kernels of the Hub and others that keep no matrix of scores either.
    const std::string name = lower(value.text);
    const bool is_flash = name.find("flash-attn") != std::string::npos ||
                          name.find("flash_attn") != std::string::npos || name == "xformers" ||
                          name == "flex_attention" || name == "sage_attention";
    if (is_flash) {
      draft.assign(key, text_node("flash_attention_2"));
      return {};
    }
  }
  if (key == "loss_type") {
    if (value.is_null() || (value.is_string() && (value.text == "cross_entropy" || value.text == "ce"))) return {};
    if (value.is_string() && value.text != "nll" && value.text != "chunked_nll")
      return bad_input(fmt::format("loss_type: found {}; only nll and chunked_nll are modelled", shown(value)));
    draft.assign("loss", value, key);
    return {};
  }
  if (key == "model_init_kwargs") {
    if (!value.is_object()) return {};
    for (const auto& [inner, item] : value.members)
      if (inner == "torch_dtype" || inner == "dtype" || inner == "attn_implementation")
        PLIMSOLL_TRY_STATUS(read_key(inner, item, draft));
    return {};
  }
  if (value.is_null()) return {};
  if (value.is_object() && key.starts_with("accelerate") && key != "accelerator_config")
    return add_accelerate_table(value, draft);
  // A table that nobody knows: what it says of the training is not passed over.
  if (value.is_object() && !is_key(key) && find_alias(Framework::kTransformers, key) == nullptr &&
      find_alias(draft.names, key) == nullptr) {
    for_each_leaf(value, [&draft](const std::string& path, const Node& leaf) { draft.assign(path, leaf); }, key);
    return {};
  }
  // The Trainer's own switch, apart from what other files say about checkpointing (rules.md R305).
  if (key == "gradient_checkpointing") draft.assign("trainer_gradient_checkpointing", value, key);
  draft.assign(key, value);
  return {};
}

}  // namespace

Status read_training_tree(const Node& arguments, Draft& draft) {
  if (!arguments.is_object()) return bad_input("wanted a table of TrainingArguments");
  Node root = arguments;
  PLIMSOLL_TRY_STATUS(take_trl_preference(root, draft));
  PLIMSOLL_TRY_STATUS(take_spectrum_file(root, draft));
  for (const auto& [key, value] : root.members) PLIMSOLL_TRY_STATUS(read_key(key, value, draft));
  PLIMSOLL_TRY_STATUS(read_fsdp(root, draft));
  if (const Node* config = root.find("accelerator_config"); config != nullptr)
    PLIMSOLL_TRY_STATUS(read_accelerator_config(*config, draft));
  PLIMSOLL_TRY_STATUS(read_deepspeed(root, draft));
  if (root.has("fsdp") && draft.framework == Framework::kDeepSpeed && given(draft, "sharding"))
    return bad_input("fsdp and deepspeed are both given", "keep one of them");
  if (!given(draft, "per_device_train_batch_size") && !given(draft, "micro_batch_size"))
    draft.assign("micro_batch_size", integer_node(8), "per_device_train_batch_size (Trainer's default)", true);
  PLIMSOLL_TRY_STATUS(read_evaluation(root, draft));
  PLIMSOLL_TRY_STATUS(read_adapter(root, draft));
  use_trl_defaults(arguments, root, draft);
  return {};
}

Result<Draft> read_training_arguments(const InputFile& file, const ReadOptions& /*options*/) {
  if (is_saved_arguments(file.text)) return read_saved_arguments(file);
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kTrainingArguments;
  draft.vocabulary = Framework::kTransformers;
  draft.framework = Framework::kTransformers;
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  // Programs beside TRL that take a file, too, have switches of their own for adapters.
  const bool is_script = root.is_object() && (root.has("use_lora") || root.has("lora_enable") || root.has("q_lora") ||
                                              root.has("lora_rank") || has_common_words(root));
  if (is_script) {
    PLIMSOLL_TRY(arguments, from_trainer_script(root, draft));
    PLIMSOLL_TRY_STATUS(read_training_tree(arguments, draft));
    return draft;
  }
  PLIMSOLL_TRY_STATUS(read_training_tree(root, draft));
  return draft;
}

bool is_training_arguments(const Node& root) {
  if (root.has("num_layers")) return false;
  return has_any(root, {"per_device_train_batch_size", "output_dir", "num_train_epochs", "gradient_checkpointing",
                        "optim", "learning_rate", "max_grad_norm", "per_device_eval_batch_size", "fsdp", "deepspeed",
                        "max_seq_length", "lr_scheduler_type", "model_name_or_path", "gradient_accumulation_steps"});
}

}  // namespace plimsoll::job
