// SPDX-License-Identifier: Apache-2.0
// oumi's YAML (names from its examples; defaults as remembered): sections for model, training, peft, fsdp.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/tools/dialect_rows.h"
#include "framework/tools/dialects.h"
#include "framework/tools/sections.h"
#include "framework/transformers/preference.h"
#include "job/alias_rows.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kOumiRows[] = {
    {"model.model_kwargs.*", kNotModelled, "arguments of the model's own are not read"},
    {"model.freeze_layers", kRefused, "frozen layers are not modelled"},
    {"model.adapter_model", kNoEffect},
    {"training.trainer_kwargs.*", kNotModelled, "arguments of the trainer's own are not read"},
    {"training.mixed_precision_dtype", kNoEffect},
    {"peft.lora_task_type", kNoEffect},
    {"peft.q_lora_bits", kNoEffect},
    {"peft.bnb_4bit_quant_storage", kNoEffect},
    {"peft.bnb_4bit_quant_type", kNoEffect},
    {"peft.bnb_4bit_compute_dtype", kNoEffect},
    {"peft.llm_int8_skip_modules", kNoEffect},
    {"peft.peft_save_mode", kNoEffect},
    {"peft.lora_alpha", kNoEffect},
    {"peft.lora_bias", kNoEffect},
    {"peft.lora_init_weights", kNoEffect},
    {"peft.lora_modules_to_save", kKey, "modules_to_save"},
    {"fsdp.auto_wrap_policy", kNoEffect},
    {"fsdp.forward_prefetch", kNotModelled, "one more gathered unit is not counted"},
    {"fsdp.use_orig_params", kNoEffect},
    {"fsdp.mixed_precision", kNoEffect},
    {"fsdp.min_num_params", kNoEffect},
    {"fsdp.state_dict_type", kNoEffect},
    {"fsdp.backward_prefetch", kNoEffect},
    {"fsdp.transformer_layer_cls", kNoEffect},
    {"fsdp.sync_module_states", kNoEffect},
    {"deepspeed.*", kRefused, "oumi's deepspeed section is not read; give the DeepSpeed file beside it"},
    {"data.*", kNoEffect},
};

constexpr std::string_view kOumiWithoutEffect = R"(
    model.load_pretrained_weights model.trust_remote_code model.tokenizer_* model.chat_template model.compile model.processor_kwargs.*
    model.device_map model.tokenizer_name model.model_revision evaluation.* tuning.* remote_config.*
)";

const std::vector<Alias>& names() {
  static const std::vector<Alias> table = with_names_without_effect(kOumiRows, kOumiWithoutEffect);
  return table;
}

void read_training(const Node& training, Translation& to, Draft& draft) {
  constexpr std::string_view kSame[] = {"per_device_train_batch_size", "gradient_accumulation_steps", "max_grad_norm",
                                        "per_device_eval_batch_size", "use_peft"};
  for (const std::string_view key : kSame)
    if (const Node* value = training.find(key); value != nullptr && !value->is_null())
      to.put(key, *value, fmt::format("training.{}", key));
  constexpr std::pair<std::string_view, std::string_view> kOther[] = {
      {"enable_gradient_checkpointing", "gradient_checkpointing"},
      {"optimizer", "optim"},
      {"compile", "torch_compile"}};
  for (const auto& [key, target] : kOther)
    if (const Node* value = training.find(key); value != nullptr && !value->is_null())
      to.put(target, *value, fmt::format("training.{}", key));
  const Node* mixed = training.find("mixed_precision_dtype");
  const std::string dtype = mixed != nullptr && mixed->is_string() ? lower(mixed->text) : "none";
  if (dtype == "bf16" || dtype == "fp16") to.put(dtype, bool_node(true));
  static_cast<void>(draft);
}

Status read_fsdp(const Node& fsdp, Translation& to) {
  const Node* on = fsdp.find("enable_fsdp");
  if (on == nullptr || is_off(*on)) return {};
  to.put("fsdp", bool_node(true));
  Node config;
  config.kind = Node::Kind::kObject;
  config.members.emplace_back("version", integer_node(1));
  if (const Node* strategy = fsdp.find("sharding_strategy"); strategy != nullptr && strategy->is_string())
    config.members.emplace_back("sharding_strategy", *strategy);
  if (const Node* offload = fsdp.find("cpu_offload"); offload != nullptr && !is_off(*offload))
    config.members.emplace_back("offload_params", *offload);
  if (const Node* ahead = fsdp.find("forward_prefetch"); ahead != nullptr)
    config.members.emplace_back("forward_prefetch", *ahead);
  to.put("fsdp_config", std::move(config));
  return {};
}

Result<Node> from_oumi(const Node& root, Draft& draft) {
  draft.names = names();
  keep_unread(root,
              "torch_dtype_str per_device_train_batch_size enable_gradient_checkpointing gradient_checkpointing_kwargs "
              "enable_fsdp sharding_strategy use_peft lora_target_modules lora_r lora_alpha freeze_layers cpu_offload "
              "lora_dropout q_lora bnb_4bit_quant_type bnb_4bit_compute_dtype bnb_4bit_quant_storage mixed_precision "
              "mixed_precision_dtype use_bnb_nested_quant lora_use_dora lora_init_weights q_lora_bits",
              "data evaluation inference launcher tuning deepspeed teacher_model_init_kwargs envs", draft);
  Translation to(root);
  const Node* model = to.take("model");
  const Node* training = to.take("training");
  const Node* peft = to.take("peft");
  const Node* fsdp = to.take("fsdp");
  for (const char* section :
       {"data", "evaluation", "tuning", "remote_config", "name", "resources", "working_dir", "setup", "run", "envs",
        "num_nodes", "file_mounts", "storage_mounts", "user", "model_config"})
    static_cast<void>(to.take(section));
  if (model == nullptr || !model->is_object()) return bad_input("model: wanted a table");
  if (training != nullptr && training->is_object()) {
    const Node* trainer = training->find("trainer_type");
    std::optional<Preference> preference;
    if (trainer != nullptr && trainer->is_string()) {
      PLIMSOLL_TRY(named, preference_named("training.trainer_type", lower(trainer->text)));
      preference = named;
    }
    read_training(*training, to, draft);
    if (preference) put_preference(*preference, to, draft);
  }
  if (const Node* name = model->find("model_name"); name != nullptr) to.put("model_name_or_path", *name);
  const Node* adapts = training == nullptr || !training->is_object() ? nullptr : training->find("use_peft");
  const Node* frozen = model->find("freeze_layers");
  if (frozen != nullptr && std::any_of(frozen->items.begin(), frozen->items.end(),
                                       [](const Node& layer) { return layer.text.find("vis") != std::string::npos; }))
    to.put("freeze_vision_tower", bool_node(true), "model.freeze_layers");
  // A frozen tower for images is not counted beside the language model anyway.
  const bool freezes_text =
      frozen != nullptr && std::any_of(frozen->items.begin(), frozen->items.end(), [](const Node& layer) {
        return layer.text.find("vis") == std::string::npos && layer.text.find("image") == std::string::npos;
      });
  if (freezes_text && (adapts == nullptr || is_off(*adapts)))
    return bad_input("model.freeze_layers: training of a part of the model is not modelled");
  if (const Node* length = model->find("model_max_length"); length != nullptr)
    to.put("max_length", *length, "model.model_max_length");
  if (const Node* dtype = model->find("torch_dtype_str"); dtype != nullptr) to.put("torch_dtype", *dtype);
  if (const Node* attention = model->find("attn_implementation"); attention != nullptr)
    to.put("attn_implementation", *attention);
  if (const Node* liger = model->find("enable_liger_kernel"); liger != nullptr) to.put("use_liger_kernel", *liger);
  const Node* on = training == nullptr ? nullptr : training->find("use_peft");
  if (on != nullptr && !is_off(*on)) {
    const Node none;
    const Node& adapter = peft == nullptr ? none : *peft;
    const Node* rank = adapter.find("lora_r");
    to.put("lora_r", rank == nullptr ? integer_node(8) : *rank);
    if (const Node* targets = adapter.find("lora_target_modules"); targets != nullptr && !targets->is_null())
      to.put("lora_target_modules", *targets);
    if (const Node* four = adapter.find("q_lora"); four != nullptr && !is_off(*four)) {
      to.put("load_in_4bit", bool_node(true));
      const Node* twice = adapter.find("use_bnb_nested_quant");
      to.put("bnb_4bit_use_double_quant", twice == nullptr ? bool_node(false) : *twice);
    }
    if (const Node* dropout = adapter.find("lora_dropout"); dropout != nullptr) to.put("lora_dropout", *dropout);
    if (const Node* dora = adapter.find("lora_use_dora"); dora != nullptr) to.put("use_dora", *dora);
  }
  if (fsdp != nullptr && fsdp->is_object()) PLIMSOLL_TRY_STATUS(read_fsdp(*fsdp, to));
  return to.finish(draft);
}

}  // namespace

bool is_oumi(const Node& root) {
  const Node* model = root.find("model");
  return is_table(model) && model->has("model_name") && is_table(root.find("training"));
}

namespace {

constexpr Command kCommands[] = {{"oumi", "train", "distributed"}};

bool starts(std::string_view program) { return program == "oumi train"; }

}  // namespace

constinit const Dialect oumi_dialect = {FileKind::kOumi, "oumi", starts, nullptr, from_oumi, kCommands};

}  // namespace plimsoll::job
