// SPDX-License-Identifier: Apache-2.0
#include "model/hf_config.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "model/fields.h"
#include "model/hf_family.h"
#include "model/hf_vision.h"
#include "model/limits.h"
#include "model/unmodelled.h"

namespace plimsoll::catalog {
extern const std::string_view kFamiliesJson;  // catalog/families.json, embedded by cmake/embed.cmake
}

namespace plimsoll::model {

namespace {

using document::Node;

// The file is part of the program, so a flaw in it is ours and is found by the tests that read every family.
const Node* defaults_of(std::string_view model_type) {
  static const Node kRoot = document::parse_json(catalog::kFamiliesJson).value_or(Node{});
  const Node* families = kRoot.find("families");
  return families == nullptr ? nullptr : families->find(model_type);
}

std::vector<Family> all_families() {
  std::vector<Family> all;
  for (const auto& part : {dense_families(), late_dense_families(), classic_families(), moe_families(),
                           late_moe_families(), latent_families(), hybrid_families(), state_space_families(),
                           selective_families(), stream_families(), encoder_families(), seq2seq_families()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

const std::vector<Family>& families() {
  static const std::vector<Family> kAll = all_families();
  return kAll;
}

std::string without_underscores(std::string_view text) {
  std::string result;
  for (const char c : lower(text))
    if (c != '_' && c != '-') result += c;
  return result;
}

const Family* find_family(std::string_view model_type) {
  for (const Family& family : families())
    if (family.model_type == model_type) return &family;
  return nullptr;
}

// "Qwen2MoeForCausalLM" -> qwen2_moe, for files that name only their class.
const Family* find_by_class(std::string_view class_name) {
  for (const std::string_view ending : {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration"})
    if (class_name.ends_with(ending)) class_name.remove_suffix(ending.size());
  for (const Family& family : families())
    if (without_underscores(family.model_type) == without_underscores(class_name)) return &family;
  return nullptr;
}

// "model_type 'lama'" or "architectures 'LamaForCausalLM'", whichever the file has; empty for neither.
struct Named {
  std::string key;
  std::string value;
};

Result<Named> family_name(const Node& table) {
  if (const Node* type = table.find("model_type"); type != nullptr && !type->is_null()) {
    if (!type->is_string())
      return bad_input(fmt::format("model_type is {}; wanted a string", document::kind_name(type->kind)));
    return Named{"model_type", type->text};
  }
  const Node* classes = table.find("architectures");
  if (classes != nullptr && classes->is_array() && !classes->items.empty() && classes->items[0].is_string())
    return Named{"architectures", classes->items[0].text};
  return bad_input("the key model_type is missing", "is this the config.json of a model?");
}

Result<const Family*> family_of(const Named& named) {
  const Family* family = named.key == "model_type" ? find_family(named.value) : find_by_class(named.value);
  // A multimodal file without text_config, or a text_config that repeats the outer name.
  if (family == nullptr) family = find_family(named.value + "_text");
  if (family != nullptr) return family;
  std::vector<std::string> known;
  for (const Family& one : families()) known.emplace_back(one.model_type);
  const std::string near = nearest(named.value, known);
  return bad_input(fmt::format("{} '{}' is not a known family; known are {}", named.key, named.value.substr(0, 80),
                               join(known, ", ")),
                   near.empty() ? "" : fmt::format("did you mean {}?", near));
}

// Multimodal files keep the language model under text_config (facts models.md, trap 8). A text_config
// without its own model_type is named by the file around it.
Result<Named> text_family_name(const Node& root, const Node& text) {
  if (&text == &root || text.has("model_type")) return family_name(text);
  return family_name(root);
}

// The part of a head that rotates where the file does not say it.
double usual_rope_share(std::string_view model_type) {
  for (const std::string_view half : {"phi", "glm", "glm4", "glm4_moe", "nemotron", "bamba"})
    if (model_type == half) return 0.5;
  for (const std::string_view quarter : {"gpt_neox", "stablelm", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"})
    if (model_type == quarter) return 0.25;
  return 1.0;
}

// Keys that shape no tensor. Transformers 5 keeps those of positions in rope_parameters; a rope_parameters with
// a table for each kind of layer gives no single base.
void read_numerics(Fields& in, std::string_view model_type, Architecture& model) {
  constexpr double kMostBase = 1e15;  // far above any that is used, and exact as an integer
  const double base = in.positive_or(
      "rope_theta|rope_parameters.rope_theta|rope_scaling.rope_theta|rotary_emb_base|attn_config.rope_theta", kMostBase,
      0);
  const auto whole = static_cast<std::int64_t>(base);
  if (static_cast<double>(whole) == base) model.rope_base = whole;
  model.rope_share = in.positive_or("partial_rotary_factor|rope_parameters.partial_rotary_factor|rotary_pct", 1,
                                    usual_rope_share(model_type));
  if (in.has("rotary_dim") && !model.kinds.empty()) {  // GPT-J counts dimensions
    const auto dim = static_cast<double>(model.kinds.front().attention.head_dim);
    model.rope_share = std::min(1.0, static_cast<double>(in.size("rotary_dim", limits::kHeadDim)) / dim);
  }
  for (const char* table : {"rope_scaling", "rope_parameters"}) {
    const auto key = [table](const char* name) { return fmt::format("{}.{}", table, name); };
    const std::string type = in.text(key("rope_type"), in.text(key("type"), ""));
    if (type.empty() || type == "default") continue;
    model.rope_scaling = type;
    model.rope_factor = in.positive_or(key("factor"), kMostBase, 0);
  }
  model.norm_epsilon = in.positive_or("rms_norm_eps|layer_norm_eps|layer_norm_epsilon|norm_eps|norm_epsilon", 1, 0);
}

// Its weights are there whatever it computes.
void name_unmodelled(const Node& root, std::string_view key, std::string_view part, Architecture& model) {
  const std::int64_t parameters = unmodelled_parameters(*root.find(key), model.hidden);
  constexpr std::int64_t kMillion = 1'000'000;
  model.unmodelled += parameters;
  model.warnings.push_back(
      parameters > 0
          ? fmt::format("{}: {} is not modelled; about {} million weights are counted, what it computes is not", key,
                        part, (parameters + kMillion / 2) / kMillion)
          : fmt::format("{}: {} is not modelled; only the language model is in the numbers", key, part));
}

}  // namespace

bool looks_like_hf_config(const Node& root) {
  return root.is_object() && (root.has("model_type") || root.has("architectures"));
}

Result<Architecture> read_hf_config(const Node& root) {
  if (!root.is_object())
    return bad_input(fmt::format("config.json holds {}; wanted a table", document::kind_name(root.kind)));
  const Node* text = root.find("text_config");
  if (text != nullptr && text->is_null()) text = nullptr;
  if (text != nullptr && !text->is_object())
    return bad_input(fmt::format("text_config is {}; wanted a table", document::kind_name(text->kind)));
  const Node& table = text != nullptr ? *text : root;
  PLIMSOLL_TRY(named, text_family_name(root, table));
  PLIMSOLL_TRY(family, family_of(named));
  Fields in(table, text != nullptr ? &root : nullptr, defaults_of(family->model_type));
  Architecture model = family->read(in);
  read_numerics(in, family->model_type, model);
  Status status = in.status();
  if (status) status = validate(model);
  if (!status)
    return tl::make_unexpected(
        std::move(status.error()).with_context(fmt::format("config of family {}", family->model_type)));
  model.model_type = family->model_type;
  if (!in.assumed().empty())
    model.warnings.push_back(
        fmt::format("config.json: leaves out keys of the {} family; Transformers' defaults are "
                    "counted: {}",
                    family->model_type, join(in.assumed(), ", ")));
  if (root.has("vision_config")) {
    PLIMSOLL_TRY(vision, read_vision(root, model));
    model.vision = std::move(vision);
    // The outer key decides, with the outer class's default; LLaVA's also takes the text's.
    if (model.vision != nullptr) {
      const std::string& type = model.vision->model_type;
      const bool usual = type == "mistral3" || type == "internvl" || type == "gemma3";
      const bool text_tied = type.starts_with("llava") && model.tied_embeddings;
      model.tied_embeddings = text_tied || Fields(root).flag("tie_word_embeddings", usual);
    }
    const Node* type = root.find("model_type");
    if (model.vision == nullptr)
      name_unmodelled(root, "vision_config",
                      fmt::format("the tower of {}", type != nullptr ? type->text : std::string("this file")), model);
  }
  if (root.has("audio_config")) name_unmodelled(root, "audio_config", "the part that hears", model);
  return model;
}

}  // namespace plimsoll::model
