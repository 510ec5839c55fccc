// SPDX-License-Identifier: Apache-2.0
// Adapters and the quantised base below them, in common words.
#include <fmt/format.h>

#include "framework/tools/by_names_sayings.h"
#include "job/unknown.h"

namespace plimsoll::job {

namespace {

// Which linears have an adapter, one switch each.
Node targets_by_switch(Sayings& sayings) {
  constexpr std::pair<std::string_view, std::string_view> kSwitches[] = {
      {"lora_query", "q_proj"},  {"lora_key", "k_proj"},  {"lora_value", "v_proj"},  {"lora_projection", "o_proj"},
      {"lora_mlp", "gate_proj"}, {"lora_mlp", "up_proj"}, {"lora_mlp", "down_proj"}, {"lora_head", "lm_head"}};
  Node targets;
  targets.kind = Node::Kind::kArray;
  for (Said& said : sayings.said())
    for (const auto& [name, linear] : kSwitches) {
      if (said.path != name) continue;
      said.done = true;
      if (!is_off(said.value)) targets.items.push_back(text_node(std::string(linear)));
    }
  return targets;
}

// "all", "all-linear", "*_proj": every linear of the layers.
bool takes_all_linears(const Node& targets) {
  const Node& first = targets.is_array() && targets.items.size() == 1 ? targets.items.front() : targets;
  if (!first.is_string()) return false;
  const std::string word = lower(first.text);
  return word == "all" || word == "all-linear" || word == "*_proj" || word == "*proj";
}

// "method: qlora", "finetuning_type: full": how much of the model is trained, in a word.
std::string method_of_tuning(Sayings& sayings) {
  for (Said& said : sayings.said()) {
    const std::string_view last = std::string_view(said.path).substr(said.path.rfind('.') + 1);
    if (!said.value.is_string()) continue;
    const bool is_of_table = said.path.ends_with("adapter.type") || said.path.ends_with("peft.type");
    for (const std::string_view name : {"method", "finetuning_type", "finetune_type", "tuning_type", "tuner_type",
                                        "train_type", "training_type", "train_method", "peft_method", "peft_type"})
      if (last == name || is_of_table)
        if (std::string word = lower(said.value.text); contains_any(word, {"full", "lora", "dora"})) {
          said.done = true;
          return word;
        }
  }
  return {};
}

}  // namespace

void read_adapter(Sayings& sayings) {
  Node targets = targets_by_switch(sayings);
  const Said* asked = sayings.find("use_lora");
  const Said* rank = sayings.find("lora_r");
  const Said* listed = sayings.find("lora_target_modules");
  const Said* dropout = sayings.find("lora_dropout");
  const Said* quantize = sayings.find("quantize");
  // "is_quantized: false" beside the settings that it would have.
  if (const Said* quantized = sayings.find("is_quantized"); quantized != nullptr && is_off(quantized->value)) {
    sayings.pass("quantize");
    quantize = nullptr;
    for (Said& said : sayings.said())
      if (said.path.ends_with("load_in_8bit")) said.done = true;
  }
  const Said* twice = sayings.find("double_quant");
  const Said* dora = sayings.find("use_dora");
  if (const Said* type = sayings.find("weights_dtype");
      quantize == nullptr && type != nullptr && names_four_bits(lower(document::to_text(type->value))))
    quantize = type;
  const std::string method = method_of_tuning(sayings);
  for (Said& said : sayings.said())
    if (said.path.ends_with("lora_alpha")) said.done = true;
  const bool is_switch = asked != nullptr && (asked->value.is_bool() || is_off(asked->value));
  const bool is_full = contains_any(method, {"full"});
  const bool on = is_switch ? !is_off(asked->value)
                            : !is_full && ((rank != nullptr && !is_off(rank->value)) || contains_any(method, {"lora"}));
  const bool freezes = asked != nullptr && asked->value.is_string() && lower(asked->value.text) == "freeze" &&
                       sayings.find("trainable_layers") != nullptr;
  if (asked != nullptr && asked->value.is_string() && !freezes &&
      contains_any(lower(asked->value.text), {"freeze", "ia3", "prompt"}))
    sayings.leave(*asked);  // another way to train a part of the model
  const std::string bits = quantize == nullptr ? "" : lower(document::to_text(quantize->value));
  const bool four = names_four_bits(bits) || contains_any(bits, {"true"}) || bits == "4" ||
                    (quantize == nullptr && contains_any(method, {"qlora"}));
  const bool is_whole = bits == "16" || bits == "32" || bits == "none";  // of a number of bits: not quantised
  if (!on) {
    // A switch that is off silences whatever else is said of adapters.
    const bool is_silent = is_switch && is_off(asked->value);
    for (Said& said : sayings.said())
      if (said.path.ends_with("target_modules") || (is_silent && subject_of(said.path) == "adapters")) said.done = true;
    if (quantize != nullptr && !is_off(quantize->value) && !is_whole) sayings.leave(*quantize);
    return;
  }
  sayings.put("use_peft", bool_node(true), rank == nullptr ? "" : rank->path);
  if (rank != nullptr) sayings.put("lora_r", rank->value, rank->path);
  if (dropout != nullptr) sayings.put("lora_dropout", dropout->value, dropout->path);
  const bool takes_all = listed != nullptr && (takes_all_linears(listed->value) || is_off(listed->value) ||
                                               (listed->value.is_string() && trim(listed->value.text).empty()) ||
                                               (listed->value.is_array() && listed->value.items.empty()));
  if (listed != nullptr && !takes_all) {
    sayings.put("lora_target_modules", listed->value, listed->path);
  } else {
    sayings.put("lora_target_modules", targets.items.empty() ? text_node("all-linear") : std::move(targets), {});
  }
  if (dora != nullptr && !is_off(dora->value)) sayings.put("use_dora", bool_node(true), dora->path);
  if (four) {
    const std::string from = quantize == nullptr ? std::string{} : quantize->path;
    const bool is_double = twice != nullptr ? !is_off(twice->value) : contains_any(bits, {"dq", "double"});
    sayings.put("load_in_4bit", bool_node(true), from);
    sayings.put("bnb_4bit_use_double_quant", bool_node(is_double), twice == nullptr ? from : twice->path);
  } else if (quantize != nullptr && !is_off(quantize->value) && !is_whole) {
    sayings.leave(*quantize);
  }
}

// "llama_type: llama_peft": what a kind of model says of adapters is not in its sizes.
Status refuse_adapters_by_type(Sayings& sayings) {
  const bool reads_adapter = sayings.find("lora_r") != nullptr || sayings.find("use_lora") != nullptr;
  for (Said& said : sayings.said()) {
    const std::string_view last = std::string_view(said.path).substr(said.path.rfind('.') + 1);
    if (last == "num_labels") {
      said.done = true;
      sayings.put("num_labels", said.value, said.path);
    }
    if (reads_adapter && last == "peft_type" && lower(document::to_text(said.value)) == "lora") said.done = true;
    if (said.done || reads_adapter || !last.ends_with("_type") || !said.value.is_string()) continue;
    if (contains_any(lower(said.value.text), {"peft", "lora", "adapter"}))
      return bad_input(
          fmt::format("{}: '{}' speaks of adapters, in words of a tool that is not known", said.path, said.value.text),
          "give the model and --peft, --lora-rank by flags");
  }
  return {};
}

}  // namespace plimsoll::job
