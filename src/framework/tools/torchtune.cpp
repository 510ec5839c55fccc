// SPDX-License-Identifier: Apache-2.0
// torchtune's YAML (names from its recipes/configs; defaults as remembered). Components name the model, the optimizer
// and the loss; the recipe, which decides whether the weights are sharded, is not in the file: more than one GPU is
// read as FSDP2.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/tools/dialect_rows.h"
#include "framework/tools/dialects.h"
#include "job/alias_rows.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/unknown.h"
#include "job/value.h"
#include "model/catalog.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kTorchtuneRows[] = {
    {"tensor_parallel_dim", kKey, "tensor_model_parallel_size"},
    {"context_parallel_dim", kKey, "context_parallel_size"},
    {"data_parallel_replicate_dim", kKey, "dp_replicate"},
    {"data_parallel_shard_dim", kNoEffect},
    {"custom_sharded_layers", kNoEffect},
    {"memory_efficient_fsdp_wrap", kNoEffect},
    {"ac_mode", kNotModelled, "every layer is counted as checkpointed"},
    {"ac_option", kNoEffect},
    {"optimizer_in_bwd", kNotModelled, "gradients that are freed during backward are counted"},
    {"tensor_parallel_plan", kNoEffect},
    {"enable_fp8_training", kRefused, "float8 training of torchtune is not modelled"},
    {"quantizer", kNoEffect},  // read with the checkpointing
    {"teacher_model", kRefused, "knowledge distillation holds a teacher model that is not modelled"},
    {"fsdp_cpu_offload", kKey, "fsdp_cpu_offload"},
    {"fsdp_reshard_after_forward", kKey, "reshard_after_forward"},
};

constexpr std::string_view kTorchtuneWithoutEffect = R"(
    output_dir tokenizer checkpointer resume_from_checkpoint save_adapter_weights_only dataset dataset_val seed shuffle
    run_val_every_n_steps batch_size_val optimizer lr_scheduler epochs max_steps_per_epoch metric_logger
    log_every_n_steps log_peak_memory_stats log_level device profiler clip_grad_norm collate_fn max_validation_batches
    enable_async_checkpointing gradient_accumulation_steps_val dataset_prepared_path packed float8_recipe_name
    model_type low_cpu_ram use_flex_attention max_filename save_every_n_steps prompt chunked_loss temperature
    keep_last_n_checkpoints
)";

const std::vector<Alias>& names() {
  static const std::vector<Alias> table = with_names_without_effect(kTorchtuneRows, kTorchtuneWithoutEffect);
  return table;
}

std::string component(const Node* table) {
  const Node* name = table == nullptr || !table->is_object() ? nullptr : table->find("_component_");
  return name == nullptr || !name->is_string() ? std::string{} : name->text.substr(name->text.rfind('.') + 1);
}

const Node* at(const Node& root, std::string_view section, std::string_view key) {
  const Node* table = root.find(section);
  const Node* value = table == nullptr || !table->is_object() ? nullptr : table->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

// The folder of the checkpoint names the release; the component only the family and the size.
std::string model_name(const Node& root, const std::string& component) {
  for (const std::string_view section : {"checkpointer", "tokenizer"})
    for (const std::string_view key : {"checkpoint_dir", "path"}) {
      const Node* path = at(root, section, key);
      if (path == nullptr || !path->is_string()) continue;
      for (const std::string_view part : split(path->text, '/'))
        if (!part.empty() && model::find_model(part)) return std::string(part);
    }
  const Node* path = at(root, "checkpointer", "checkpoint_dir");
  return path != nullptr && path->is_string() ? path->text : component;
}

Status read_adapter(const Node& model, const std::string& name, Translation& to) {
  const bool is_quantised = name.substr(0, 6) == "qlora_";
  const bool is_lora = is_quantised || name.substr(0, 5) == "lora_";
  to.put("use_peft", bool_node(is_lora));
  if (!is_lora) return {};
  const auto value = [&model](std::string_view key) -> const Node* {
    const Node* found = model.find(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  };
  const auto on = [&value](std::string_view key) {
    const Node* found = value(key);
    return found != nullptr && !is_off(*found);
  };
  Node targets;
  targets.kind = Node::Kind::kArray;
  if (const Node* listed = value("lora_attn_modules"); listed != nullptr && listed->is_array())
    for (const Node& item : listed->items)
      targets.items.push_back(text_node(item.text == "output_proj" ? "o_proj" : item.text));
  if (on("apply_lora_to_mlp"))
    for (const char* linear : {"gate_proj", "up_proj", "down_proj"}) targets.items.push_back(text_node(linear));
  if (on("apply_lora_to_output")) targets.items.push_back(text_node("lm_head"));
  to.put("lora_target_modules", std::move(targets));
  const Node* rank = value("lora_rank");
  to.put("lora_r", rank == nullptr ? integer_node(8) : *rank);
  if (const Node* dropout = value("lora_dropout")) to.put("lora_dropout", *dropout);
  if (on("use_dora")) to.put("use_dora", bool_node(true));
  if (is_quantised || on("quantize_base")) {
    to.put("load_in_4bit", bool_node(true));
    to.put("bnb_4bit_use_double_quant", bool_node(true));  // torchao's NF4 quantises the scales, too
  }
  return {};
}

// Arguments of the model's builder: what is none of these and speaks of memory must not go unread.
Status check_model_arguments(const Node& model) {
  constexpr std::string_view kRead[] = {
      "_component_",  "lora_attn_modules", "apply_lora_to_mlp", "apply_lora_to_output", "lora_rank",   "lora_alpha",
      "lora_dropout", "use_dora",          "quantize_base",     "image_size",           "pooler_path", "max_seq_len",
      "attn_dropout", "rope_base"};
  for (const auto& [key, value] : model.members) {
    if (std::find(std::begin(kRead), std::end(kRead), key) != std::end(kRead)) continue;
    // "frozen" and "lora" beside "full", or booleans in older releases.
    if (key.ends_with("_trainable")) {
      if (value.is_string() ? value.text != "full" : is_off(value))
        return bad_input(fmt::format("model.{}: training of a part of the model is not modelled", key));
      continue;
    }
    if (!subject_of(key).empty() && !is_off(value))
      return bad_input(fmt::format("model.{}: unknown key, which speaks of {}", key, subject_of(key)));
  }
  return {};
}

Status read_optimizer(const Node& root, Translation& to) {
  const std::string name = component(root.find("optimizer"));
  if (name.empty()) return {};
  const Node* fused = at(root, "optimizer", "fused");
  const bool is_fused = fused != nullptr && !is_off(*fused);
  if (name == "AdamW" || name == "Adam") {
    to.put("optim", text_node(is_fused ? "adamw_torch_fused" : "adamw_torch"));
  } else if (name == "PagedAdamW8bit") {
    to.put("optim", text_node("paged_adamw_8bit"));
  } else if (name == "PagedAdamW") {
    to.put("optim", text_node("paged_adamw_32bit"));
  } else if (name == "AdamW8bit") {
    to.put("optim", text_node("adamw_8bit"));
  } else if (name == "SGD") {
    to.put("optim", text_node("sgd"));
  } else {
    return bad_input(fmt::format("optimizer._component_: the optimizer '{}' is not modelled", name));
  }
  return {};
}

Result<Node> from_torchtune(const Node& root, Draft& draft) {
  draft.names = names();
  Translation to(root);
  const Node* model = to.take("model");
  const std::string name = component(model);
  if (name.empty()) return bad_input("model: has no _component_");
  const std::string loss = component(root.find("loss"));
  for (const std::string_view other : {"DPO", "PPO", "KD", "RSO", "SimPO"})
    if (loss.find(other) != std::string::npos || component(root.find("rlhf_loss")).find(other) != std::string::npos)
      return bad_input(fmt::format("loss: {} is not supervised training; its other models are not modelled", loss));
  for (const char* other : {"policy_model", "ref_checkpointer", "reward_and_value_model", "teacher_checkpointer"})
    if (root.has(other)) return bad_input(fmt::format("{}: a second model is not modelled", other));
  PLIMSOLL_TRY_STATUS(check_model_arguments(*model));
  PLIMSOLL_TRY_STATUS(read_adapter(*model, name, to));
  PLIMSOLL_TRY_STATUS(read_optimizer(root, to));
  to.put("model_name_or_path", text_node(model_name(root, name)));
  if (const Node* length = at(root, "tokenizer", "max_seq_len")) to.put("max_length", *length, "tokenizer.max_seq_len");
  if (const Node* packed = at(root, "dataset", "packed"); packed != nullptr && !is_off(*packed))
    to.put("packed_sequences", bool_node(true));
  to.rename("batch_size", "per_device_train_batch_size");
  to.rename("enable_activation_checkpointing", "gradient_checkpointing");
  if (root.has("quantizer")) PLIMSOLL_TRY_STATUS(allow_fake_quantisation("quantizer", to, draft));
  to.rename("enable_activation_offloading", "activation_offloading");
  to.rename("compile", "torch_compile");
  const std::string dtype = to.takes_word("dtype");
  // Weights, gradients and states are in the one dtype; there is no autocast.
  to.put("load_dtype", text_node(dtype == "bf16" || dtype == "fp16" ? dtype : "fp32"), "dtype");
  static_cast<void>(to.take("loss"));
  const Node* clip = to.take("clip_grad_norm");
  to.put("max_grad_norm", clip == nullptr ? integer_node(0) : *clip, "clip_grad_norm");  // null: none
  if (loss.find("Chunked") != std::string::npos || loss.find("Linear") != std::string::npos)
    to.put("loss", text_node("chunked"));
  draft.notes.emplace_back("the recipe is not in the file: several GPUs are read as FSDP2 (--framework changes that)");
  to.put("fsdp", bool_node(true));
  return to.finish(draft);
}

}  // namespace

bool is_torchtune(const Node& root) {
  const Node* model = root.find("model");
  return is_table(model) && model->has("_component_");
}

namespace {

constexpr Command kCommands[] = {{"tune", "run"}};

bool starts(std::string_view program) { return program == "tune run"; }

}  // namespace

constinit const Dialect torchtune_dialect = {FileKind::kTorchtune, "torchtune", starts, nullptr,
                                             from_torchtune,       kCommands};

}  // namespace plimsoll::job
