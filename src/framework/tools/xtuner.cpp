// SPDX-License-Identifier: Apache-2.0
// XTuner's configurations (names from xtuner/configs, behaviour from xtuner/model/{sft,llava,internvl,dpo}.py of its
// 0.1 and 0.2 releases): mmengine's sections, whose `model` names the algorithm, its language model and its adapters.
// DeepSpeed is chosen on the command line alone.
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
#include "model/towers.h"

namespace plimsoll::job {

using document::Node;

namespace {

using enum AliasKind;

const Alias kXtunerRows[] = {
    {"optim_wrapper.optimizer.*", kNoEffect},
    {"model.llm.quantization_config.*", kNoEffect},
    {"model.quantization_vit", kNotModelled, "the tower is counted in 16 bits"},
};

constexpr std::string_view kXtunerWithoutEffect = R"(
    launcher seed work_dir resume auto_resume local_rank local-rank cfg_options
)";

const std::vector<Alias>& names() {
  static const std::vector<Alias> table = with_names_without_effect(kXtunerRows, kXtunerWithoutEffect);
  return table;
}

// The value of `key` anywhere below a table, the nearest first.
const Node* anywhere(const Node* table, std::string_view key) {
  if (table == nullptr) return nullptr;
  if (const Node* found = table->find(key); found != nullptr && !found->is_null()) return found;
  for (const auto& member : table->members)
    if (const Node* found = anywhere(&member.second, key)) return found;
  for (const Node& item : table->items)
    if (const Node* found = anywhere(&item, key)) return found;
  return nullptr;
}

const Node* at(const Node* table, std::string_view key) {
  const Node* found = is_table(table) ? table->find(key) : nullptr;
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool is_on(const Node* value) { return value != nullptr && !is_off(*value); }

std::string word_of(const Node* value) {
  return value != nullptr && value->is_string() ? value->text.substr(value->text.rfind('.') + 1) : std::string{};
}

// "torch.bfloat16", "bfloat16" -> bf16
std::string short_dtype(const Node* value) {
  const std::string word = lower(word_of(value));
  return word == "bfloat16" || word == "bf16"   ? "bf16"
         : word == "float16" || word == "half"  ? "fp16"
         : word == "float32" || word == "float" ? "fp32"
                                                : "";
}

// The language model's table: {pretrained_model_name_or_path, torch_dtype, quantization_config}; a reward model's
// stands in the same place.
const Node* language_model(const Node& model) { return at(&model, "llm"); }

Status read_model(const Node& model, Translation& to) {
  const Node* name = at(language_model(model), "pretrained_model_name_or_path");
  std::string from = "model.llm.pretrained_model_name_or_path";
  if (name == nullptr) {
    name = at(&model, "model_path");  // InternVL
    from = "model.model_path";
  }
  if (name != nullptr && name->is_string()) to.put("model_name_or_path", *name, from);
  return {};
}

void read_adapter(const Node& adapter, std::string_view from, Translation& to) {
  to.put("use_peft", bool_node(true), from);
  const Node* rank = at(&adapter, "r");
  to.put("lora_r", rank == nullptr ? integer_node(8) : *rank, fmt::format("{}.r", from));  // PEFT's default
  const Node* targets = at(&adapter, "target_modules");
  to.put("lora_target_modules", targets == nullptr ? text_node("all-linear") : *targets,
         fmt::format("{}.target_modules", from));
  if (const Node* dropout = at(&adapter, "lora_dropout"))
    to.put("lora_dropout", *dropout, fmt::format("{}.lora_dropout", from));
}

// Weights, quantisation and what is cast.
void read_precision(const Node& root, const Node& model, bool adapts, Translation& to, Draft& draft) {
  const Node* config = at(language_model(model), "quantization_config");
  const bool is_vl = at(&model, "model_path") != nullptr;
  const bool four = is_on(at(config, "load_in_4bit")) || is_on(at(&model, "quantization_llm"));
  const bool eight = is_on(at(config, "load_in_8bit"));
  std::string dtype = is_vl ? "bf16" : short_dtype(at(language_model(model), "torch_dtype"));
  if (dtype.empty()) {
    dtype = "bf16";
    draft.notes.push_back(fmt::format(
        "{}: weights are taken in bf16, as with flash-attn installed (--load-dtype changes that)", draft.path));
  }
  if (four) {
    to.put("load_in_4bit", bool_node(true), "model.llm.quantization_config.load_in_4bit");
    const Node* twice = at(config, "bnb_4bit_use_double_quant");
    to.put("bnb_4bit_use_double_quant", twice == nullptr ? bool_node(is_vl) : *twice);
  } else if (eight) {
    to.put("load_in_8bit", bool_node(true), "model.llm.quantization_config.load_in_8bit");
  }
  // prepare_model_for_kbit_training runs before every adapter, and turns what is not quantised into fp32.
  if (adapts && (four || eight)) to.put("prepare_model_for_kbit_training", bool_node(true));
  if (adapts && !four && !eight) dtype = "fp32";
  to.put("load_dtype", text_node(dtype), "model.llm.torch_dtype");
  const Node* wrapper = root.find("optim_wrapper");
  if (word_of(at(wrapper, "type")) != "AmpOptimWrapper") return;
  // Its dtype is left to the GPU where it is not given.
  const std::string cast = short_dtype(at(wrapper, "dtype"));
  to.put(cast == "fp16" && dtype != "bf16" ? "fp16" : "bf16", bool_node(true), "optim_wrapper.dtype");
}

Status read_optimizer(const Node& root, Translation& to) {
  const Node* wrapper = root.find("optim_wrapper");
  const Node* optimizer = at(wrapper, "optimizer");
  const std::string name = word_of(at(optimizer, "type"));
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"AdamW", "adamw_torch"},
                                                                      {"Adam", "adamw_torch"},
                                                                      {"PagedAdamW32bit", "paged_adamw_32bit"},
                                                                      {"PagedAdamW8bit", "paged_adamw_8bit"},
                                                                      {"AdamW8bit", "adamw_8bit"},
                                                                      {"SGD", "sgd"},
                                                                      {"Lion", "lion_32bit"}};
  for (const auto& [written, target] : kNames)
    if (name == written) to.put("optim", text_node(std::string(target)), "optim_wrapper.optimizer.type");
  if (!name.empty() && !to.has("optim"))
    return bad_input(fmt::format("optim_wrapper.optimizer.type: the optimizer '{}' is not modelled", name));
  const Node* clip = at(at(wrapper, "clip_grad"), "max_norm");
  to.put("max_grad_norm", clip == nullptr ? integer_node(0) : *clip, "optim_wrapper.clip_grad.max_norm");
  if (const Node* steps = at(wrapper, "accumulative_counts"))
    to.put("gradient_accumulation_steps", *steps, "optim_wrapper.accumulative_counts");
  return {};
}

// The name of the tower that is put before the language model; null: there is none, or it has no name.
const Node* tower_name(const Node* model) {
  const Node* name = anywhere(at(model, "visual_encoder"), "pretrained_model_name_or_path");
  return name != nullptr && name->is_string() && !name->text.empty() ? name : nullptr;
}

// max_length counts an image as one token, which becomes those of the tower afterwards (dataset/llava.py).
Node with_image(const Node& length, const Node* model) {
  const Node* name = tower_name(model);
  const auto text = to_integer(length, Range{1, 1 << 27});
  if (name == nullptr || !text) return length;
  model::Architecture any;
  any.hidden = any.vocab = 1;  // nothing that is asked here depends on the text
  const auto tower = model::tower_named(name->text, "", any);
  if (!tower) return length;
  const std::int64_t side = (*tower).vision->image_size;
  return integer_node(*text + (*tower).vision->tokens(side, side) - 1);
}

void read_data(const Node& root, Translation& to) {
  const Node* loader = root.find("train_dataloader");
  if (const Node* batch = at(loader, "batch_size"))
    to.put("per_device_train_batch_size", *batch, "train_dataloader.batch_size");
  const Node* length = anywhere(at(loader, "dataset"), "max_length");
  if (length == nullptr) length = at(&root, "max_length");
  if (length != nullptr) to.put("max_length", with_image(*length, root.find("model")), "max_length");
  const bool packs = is_on(anywhere(at(loader, "dataset"), "pack_to_max_length"));
  if (packs && is_on(anywhere(loader, "use_varlen_attn")))
    to.put("packed_sequences", bool_node(true), "use_varlen_attn");
  if (const Node* ranks = at(&root, "sequence_parallel_size")) to.put("cp_size", *ranks, "sequence_parallel_size");
}

// Which of a vision-language model's parts are trained (LLaVAModel, InternVL_V1_5).
Status read_parts(const Node& model, bool adapts, Translation& to, Draft& draft) {
  const bool has_tower = at(&model, "visual_encoder") != nullptr || at(&model, "model_path") != nullptr;
  if (!has_tower) return {};
  const bool freezes_text = is_on(at(&model, "freeze_llm"));
  const bool freezes_tower = is_on(at(&model, "freeze_visual_encoder"));
  if (at(&model, "visual_encoder_lora") != nullptr)
    return bad_input("model.visual_encoder_lora: adapters of the tower for images are not modelled");
  if (at(&model, "visual_encoder") != nullptr) {
    // ProjectorModel has two linears with a GELU between them, and reads the layer before the last, as LLaVA's does.
    const Node* name = tower_name(&model);
    if (name == nullptr) {
      if (freezes_text && !adapts)
        return bad_input("model.freeze_llm: the projector alone is trained, beside a tower without a name",
                         "name it as pretrained_model_name_or_path of model.visual_encoder");
      draft.warnings.emplace_back(
          "model.visual_encoder: the tower, its projector and the positions of images are not counted");
      return {};
    }
    to.put("vision_tower", *name, "model.visual_encoder");
  }
  to.put("freeze_vision_tower", bool_node(freezes_tower), "model.freeze_visual_encoder");
  if (freezes_text && !adapts) to.put("freeze_language_model", bool_node(true), "model.freeze_llm");
  return {};
}

Status read_strategy(const Node& root, Translation& to, Draft& draft) {
  const Node* strategy = root.find("strategy");
  if (const Node* zero = anywhere(strategy, "zero_optimization")) {
    Node config;
    config.kind = Node::Kind::kObject;
    config.members.emplace_back("zero_optimization", *zero);
    to.put("deepspeed", std::move(config), "strategy.zero_optimization");
    return {};
  }
  if (is_table(strategy))
    return bad_input(fmt::format("strategy: '{}' is not read; only DeepSpeed's is", word_of(at(strategy, "type"))));
  const Node* named = root.find("deepspeed");  // of the command: deepspeed_zero2, or a file
  if (named != nullptr && named->is_string()) {
    std::string name = named->text.starts_with("deepspeed_") ? named->text.substr(10) : named->text;
    auto preset = deepspeed_preset(name);
    to.put("deepspeed", preset ? *std::move(preset) : *named, "deepspeed");
    return {};
  }
  draft.notes.push_back(fmt::format(
      "{}: XTuner is told of DeepSpeed on its command line, not here; weights are counted whole on every GPU (give the "
      "DeepSpeed file beside it)",
      draft.path));
  return {};
}

Result<Node> from_xtuner(const Node& root, Draft& draft) {
  draft.names = names();
  const Node* model = root.find("model");
  if (!is_table(model))
    return bad_input("the command names a configuration that comes with XTuner, which is not here",
                     "xtuner copy-cfg NAME . writes it; give that file");
  const std::string algorithm = word_of(at(model, "type"));
  if (algorithm == "RewardModel")
    return bad_input("model.type: a reward model has another head and loss, which are not modelled");
  const Node nothing;
  Translation to(nothing);
  const Node* adapter = at(model, "lora") != nullptr ? at(model, "lora") : at(model, "llm_lora");
  const bool adapts = is_table(adapter);
  PLIMSOLL_TRY_STATUS(read_model(*model, to));
  if (adapts) read_adapter(*adapter, at(model, "lora") != nullptr ? "model.lora" : "model.llm_lora", to);
  read_precision(root, *model, adapts, to, draft);
  read_data(root, to);
  PLIMSOLL_TRY_STATUS(read_optimizer(root, to));
  PLIMSOLL_TRY_STATUS(read_parts(*model, adapts, to, draft));
  PLIMSOLL_TRY_STATUS(read_strategy(root, to, draft));
  // Layers are checkpointed unless that is switched off.
  const Node* recompute = at(model, "use_activation_checkpointing");
  to.put("gradient_checkpointing", bool_node(recompute == nullptr || is_on(recompute)),
         "model.use_activation_checkpointing");
  if (const Node* attention = at(language_model(*model), "attn_implementation"))
    to.put("attn_implementation", *attention, "model.llm.attn_implementation");
  if (algorithm == "DPO") put_preference(Preference{true, true}, to, draft);
  if (algorithm == "ORPO") put_preference(Preference{true, false, false, false, true}, to, draft);
  Node rest;  // what may decide memory and was not read
  rest.kind = Node::Kind::kObject;
  for (const char* section : {"model", "optim_wrapper"})
    if (const Node* table = root.find(section)) rest.members.emplace_back(section, *table);
  keep_unread(
      rest,
      "type torch_dtype load_in_4bit load_in_8bit use_activation_checkpointing freeze_llm freeze_visual_encoder "
      "lora_dropout lora_alpha accumulative_counts dtype quantization_llm quantization_vit loss_scale "
      "bnb_4bit_use_double_quant bnb_4bit_quant_type bnb_4bit_compute_dtype llm_int8_threshold "
      "llm_int8_has_fp16_weight pretrained_model_name_or_path attn_implementation target_modules "
      "bnb_4bit_quant_storage use_varlen_attn max_norm",
      "visual_encoder ref_llm", draft);
  return to.finish(draft);
}

}  // namespace

bool is_xtuner(const Node& root) {
  const Node* model = root.find("model");
  return is_table(model) && model->has("type") && is_table(root.find("train_dataloader")) &&
         is_table(root.find("optim_wrapper")) && has_any(*model, {"llm", "model_path"});
}

namespace {

constexpr Command kCommands[] = {{"xtuner", "train"}};

bool starts(std::string_view program) { return program == "xtuner train"; }

}  // namespace

constinit const Dialect xtuner_dialect = {FileKind::kXtuner, "XTuner", starts, nullptr, from_xtuner, kCommands};

}  // namespace plimsoll::job
