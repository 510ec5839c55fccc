// SPDX-License-Identifier: Apache-2.0
#include "framework/transformers/trained_parts.h"

#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

bool is_on(const Node* value) {
  return value != nullptr && !is_off(*value) && !(value->is_string() && value->text.empty());
}

// What is said of each part; unset: nothing, and the program's own default holds.
struct Parts {
  std::optional<bool> tower, projector, text;
};

void say(std::optional<bool>& part, const Node* value, bool trained) {
  if (value != nullptr && !value->is_null()) part = is_on(value) == trained;
}

// LLaVA-NeXT lists the parts.
void read_list(Translation& to, Parts& parts) {
  const std::string list = to.takes_word("mm_tunable_parts");
  if (list.empty()) return;
  const auto holds = [&list](std::string_view part) { return list.find(part) != std::string::npos; };
  parts = {holds("vision_tower"), holds("mlp_adapter") || holds("projector"), holds("language_model")};
}

// A switch for each part, on where it is trained: VILA's, Qwen's and others' words.
void read_switches(Translation& to, Parts& parts) {
  for (const std::string_view key : {"tune_language_model", "tune_mm_llm", "tune_llm", "train_llm"})
    say(parts.text, to.take(key), true);
  for (const std::string_view key : {"tune_vision_tower", "tune_mm_vision", "tune_vision", "unfreeze_mm_vision_tower",
                                     "unfreeze_vision_tower", "unlock_vision_tower", "tune_vision_encoder"})
    say(parts.tower, to.take(key), true);
  for (const std::string_view key : {"tune_mm_projector", "tune_mm_mlp", "tune_projector"})
    say(parts.projector, to.take(key), true);
}

// "tune_type_llm: frozen" (TinyLLaVA): full, frozen, lora or partially.
void read_types(Translation& to, Parts& parts) {
  const auto say_type = [&to](std::string_view key, std::optional<bool>& part) {
    const std::string word = lower(to.takes_word(key));
    if (!word.empty()) part = word != "frozen";
  };
  say_type("tune_type_llm", parts.text);
  say_type("tune_type_vision_tower", parts.tower);
  say_type("tune_type_connector", parts.projector);
}

// Rates for the parts and none for the whole: a part without one is not trained (VideoLLaMA's programs).
void read_rates(const Node& root, Parts& parts) {
  if (root.has("learning_rate") || root.has("lr")) return;
  const auto has_rate = [&root](std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys)
      if (is_on(root.find(key))) return true;
    return false;
  };
  const bool tower = has_rate({"vision_encoder_lr", "vision_tower_lr", "vision_lr"});
  const bool projector = has_rate({"mm_projector_lr", "projector_lr"});
  const bool text = has_rate({"llm_lr", "language_model_lr"});
  if (tower || projector || text) parts = {tower, projector, text};
}

// In InternVL, which has freeze_llm, the backbone is the tower; in LLaVA and others it is the language model.
void read_frozen(const Node& root, Translation& to, Parts& parts) {
  const bool is_intern = root.has("freeze_llm");
  say(is_intern ? parts.tower : parts.text, to.take("freeze_backbone"), false);
  say(parts.projector, to.take("freeze_mlp"), false);
  say(parts.projector, to.take("freeze_mm_mlp_adapter"), false);
  for (const std::string_view key : {"freeze_llm", "freeze_language_model", "fix_llm"})
    say(parts.text, to.take(key), false);
  for (const std::string_view key : {"freeze_vision_tower", "freeze_vision", "freeze_vit", "freeze_vision_encoder",
                                     "freeze_vision_model", "fix_vit", "fix_vision_tower"})
    say(parts.tower, to.take(key), false);
  for (const std::string_view key : {"freeze_multi_modal_projector", "freeze_merger", "freeze_projector"})
    say(parts.projector, to.take(key), false);
  if (is_on(to.take("tune_mm_mlp_adapter"))) parts = {false, true, false};
}

// "anyres" cuts an image into two by two crops beside the whole, "anyres_max_9" into nine.
void read_crops(const Node& root, Translation& to) {
  const Node* ratio = root.find("image_aspect_ratio");
  if (ratio == nullptr || !ratio->is_string() || !ratio->text.starts_with("anyres")) return;
  std::int64_t crops = 4;
  if (const std::size_t digits = ratio->text.find_first_of("123456789"); digits != std::string::npos)
    std::from_chars(ratio->text.data() + digits, ratio->text.data() + ratio->text.size(), crops);
  to.put("image_tiles", integer_node(std::min<std::int64_t>(crops, 64) + 1), "image_aspect_ratio");
}

// Qwen's towers take images of any size up to so many pixels: the largest square is counted.
void read_pixels(Translation& to) {
  for (const std::string_view key : {"image_max_pixels", "max_pixels"}) {
    const Node* given = to.take(key);
    const auto pixels = given == nullptr ? std::nullopt : std::optional(to_integer(*given, Range{1, 1 << 28}));
    const Node* model = to.peek("model_name_or_path");
    const std::string name = model != nullptr && model->is_string() ? lower(model->text) : "";
    const bool is_qwen = name.find("qwen") != std::string::npos && name.find("vl") != std::string::npos;
    if (!pixels || !*pixels || !is_qwen || to.has("image_height")) continue;
    const std::int64_t unit = name.find("qwen3") != std::string::npos ? 32 : 28;  // merged patches of a side
    const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(**pixels))) / unit * unit;
    if (side < unit) continue;
    to.put("image_height", integer_node(side), key);
    to.put("image_width", integer_node(side), key);
  }
  for (const std::string_view key : {"image_min_pixels", "min_pixels"}) static_cast<void>(to.take(key));
}

// The name of the tower that the program puts before its language model; whether there is one.
bool read_tower(const Node& root, Translation& to, Draft& draft) {
  bool found = false;
  if (is_on(to.take("vision_tower2"))) draft.warnings.emplace_back("vision_tower2: the second tower is not counted");
  for (const std::string_view key :
       {"vision_tower", "vision_encoder", "image_tower", "mm_vision_tower", "vision_tower_name", "vision_encoder_path",
        "vision_tower_name_or_path", "vision_path"}) {
    const Node* name = to.take(key);
    if (!is_on(name) || !name->is_string() || name->text == "None" || found) continue;
    to.put("vision_tower", *name, key);
    found = true;
  }
  for (const std::string_view key : {"mm_projector", "mm_projector_type", "connector_type"}) {
    const Node* kind = to.take(key);
    if (!found || !is_on(kind) || !kind->is_string() || to.has("mm_projector_type")) continue;
    to.put("mm_projector_type", *kind, key);
  }
  if (found) read_crops(root, to);
  return found;
}

void read_intern_adapters(Translation& to, Draft& draft) {
  for (const std::string_view rank : {"use_llm_lora", "use_backbone_lora"}) {
    const Node* given = to.take(rank);
    if (!is_on(given)) continue;
    if (rank == "use_backbone_lora") {
      draft.warnings.emplace_back("use_backbone_lora: adapters of the tower for images are not counted");
      continue;
    }
    to.put("use_peft", bool_node(true), rank);
    to.put("lora_r", *given, rank);
    to.put("lora_target_modules", text_node("all-linear"), rank);
  }
}

}  // namespace

Status read_trained_parts(const Node& root, Translation& to, Draft& draft) {
  Parts parts;
  if (root.has("freeze_llm")) read_intern_adapters(to, draft);
  const bool attached = read_tower(root, to, draft);
  if (attached) parts = {false, std::nullopt, std::nullopt};
  read_pixels(to);
  read_rates(root, parts);
  read_switches(to, parts);
  read_types(to, parts);
  read_frozen(root, to, parts);
  read_list(to, parts);
  if (root.has("freeze_llm")) to.rename("grad_checkpoint", "gradient_checkpointing");
  bool adapts = to.has("use_peft") || is_on(root.find("use_peft"));
  for (const std::string_view key :
       {"lora_enable", "lora_enabled", "use_lora", "enable_lora", "use_qlora", "qlora_enabled"})
    adapts = adapts || is_on(root.find(key));
  if (parts.tower && !*parts.tower) to.put("freeze_vision_tower", bool_node(true));
  if (parts.projector && !*parts.projector) to.put("freeze_multi_modal_projector", bool_node(true));
  if (parts.text && !*parts.text && !adapts) to.put("freeze_language_model", bool_node(true));
  return {};
}

Status take_spectrum_file(Node& root, Draft& draft) {
  constexpr std::string_view kKey = "spectrum_config_path";
  const Node* named = root.find(kKey);
  if (!is_on(named) || !named->is_string()) return {};
  PLIMSOLL_TRY(found, locate(named->text, parent_folder(draft.path)));
  PLIMSOLL_TRY(text, read_named_file(found));
  auto file = parse_json_or_yaml(text);
  if (!file) return tl::make_unexpected(std::move(file.error()).with_context(found));
  const Node* list = file->is_object() ? file->find("unfrozen_parameters") : nullptr;
  if (list == nullptr || !list->is_array() || list->items.empty())
    return bad_input(fmt::format("{} {}: wanted a list of unfrozen_parameters", kKey, found));
  draft.assign("trainable_parameters", *list, kKey);
  std::erase_if(root.members, [kKey](const auto& member) { return member.first == kKey; });
  return {};
}

}  // namespace plimsoll::job
