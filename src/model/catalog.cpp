// SPDX-License-Identifier: Apache-2.0
#include "model/catalog.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "document/json_front.h"
#include "document/node.h"
#include "model/hf_config.h"

namespace plimsoll::catalog {
extern const std::string_view kModelsJson;  // catalog/models.json, embedded by cmake/embed.cmake
}

namespace plimsoll::model {

namespace {

using document::Node;

struct Catalog {
  std::vector<CatalogEntry> entries;
  std::vector<Node> configs;                 // the hf table of each entry
  std::map<std::string, std::size_t> names;  // folded name -> entry
  // Folded alias -> rope_theta where a release of the same shape has another one; 0 where it is not known.
  std::map<std::string, std::int64_t> rope_bases;
  std::vector<std::string> suggestions;  // every name and alias without owner, as written
};

// Letters, digits and points only, so that "LLAMA3.1_405B" and "Llama 3.1 405B" are llama3.1-405b. The
// point stays: opt-1.3b is not opt-13b.
std::string folded(std::string_view name) {
  std::string result;
  std::string spelled = lower(name);
  // ModelScope writes a point in a folder's name as three underscores: Qwen2___5-7B.
  for (std::size_t at = spelled.find("___"); at != std::string::npos; at = spelled.find("___", at))
    spelled.replace(at, 3, ".");
  for (const char c : spelled)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.') result += c;
  return result;
}

std::string_view without_owner(std::string_view alias) {
  const std::size_t slash = alias.rfind('/');
  return slash == std::string_view::npos ? alias : alias.substr(slash + 1);
}

std::int64_t number(const Node& entry, std::string_view key) {
  const Node* node = entry.find(key);
  return node == nullptr ? 0 : node->integer;
}

std::string word(const Node& entry, std::string_view key) {
  const Node* node = entry.find(key);
  return node == nullptr ? std::string{} : node->text;
}

// The file is part of the program, so a flaw in it is ours and is checked, not reported.
Catalog parse() {
  Catalog catalog;
  Result<Node> root = document::parse_json(plimsoll::catalog::kModelsJson);
  PLIMSOLL_CHECK(root.has_value());
  const Node* models = root->find("models");
  PLIMSOLL_CHECK(models != nullptr && models->is_array());
  for (const Node& item : models->items) {
    CatalogEntry entry;
    entry.name = word(item, "name");
    entry.parameters = number(item, "parameters");
    entry.active_parameters = number(item, "active_parameters");
    entry.mtp_parameters = number(item, "mtp_parameters");
    entry.source = word(item, "source");
    if (const Node* aliases = item.find("aliases"))
      for (const Node& alias : aliases->items) entry.aliases.push_back(alias.text);
    const Node* config = item.find("hf");
    PLIMSOLL_CHECK(config != nullptr && !entry.name.empty());
    const std::size_t index = catalog.entries.size();
    catalog.names.emplace(folded(entry.name), index);
    catalog.suggestions.push_back(entry.name);
    for (const std::string& alias : entry.aliases) {
      catalog.names.emplace(folded(alias), index);
      catalog.names.emplace(folded(without_owner(alias)), index);
      catalog.suggestions.emplace_back(without_owner(alias));
    }
    if (const Node* bases = item.find("rope_theta_of"))
      for (const auto& [alias, base] : bases->members) {
        catalog.rope_bases[folded(alias)] = base.integer;
        catalog.rope_bases[folded(without_owner(alias))] = base.integer;
      }
    catalog.configs.push_back(*config);
    catalog.entries.push_back(std::move(entry));
  }
  return catalog;
}

const Catalog& catalog() {
  static const Catalog kCatalog = parse();
  return kCatalog;
}

// The entry whose name is written exactly so, read alone: most questions name one model, and the rest of the file is
// some milliseconds. Every entry begins with its name, on a line of its own.
std::optional<Node> entry_written(std::string_view name) {
  const std::string_view text = plimsoll::catalog::kModelsJson;
  if (name.empty() || name.find('"') != std::string_view::npos) return std::nullopt;
  const std::string begin = fmt::format("\n  {{\"name\": \"{}\",", name);
  const std::size_t at = text.find(begin);
  if (at == std::string_view::npos) return std::nullopt;
  Result<Node> entry = document::parse_json_front(text.substr(at));
  PLIMSOLL_CHECK(entry.has_value());
  return *std::move(entry);
}

// Names that contain what was typed, else the nearest by spelling: "did you mean a, b or c?".
std::string suggest(std::string_view name) {
  std::vector<std::string> close;
  const std::string wanted = folded(name);
  for (const CatalogEntry& entry : catalog().entries)
    if (!wanted.empty() && close.size() < 3 && folded(entry.name).find(wanted) != std::string::npos)
      close.push_back(entry.name);
  if (close.empty())
    if (const std::string near = nearest(without_owner(name), catalog().suggestions); !near.empty())
      close.push_back(near);
  return close.empty() ? "name a model of the catalogue, or give the path of its config.json"
                       : fmt::format("did you mean {}?", join(close, ", "));
}

// The entry behind a name as people write it: the name itself, the last part of a path, and that without the endings
// that mark a release of the same shape (chat and instruction tuning, a format).
const std::string* find_name(std::string_view name) {
  const auto& names = catalog().names;
  const auto look = [&names](std::string_view wanted) -> const std::string* {
    const auto found = names.find(folded(wanted));
    return found == names.end() || found->first.empty() ? nullptr : &found->first;
  };
  while (name.size() > 1 && name.back() == '/') name.remove_suffix(1);
  if (const std::string* found = look(name)) return found;
  // ModelScope's folders write a point as three strokes: "Qwen2___5-7B".
  std::string last = lower(without_owner(name));
  for (std::size_t at = last.find("___"); at != std::string::npos; at = last.find("___")) last.replace(at, 3, ".");
  if (const std::string* found = look(last)) return found;
  constexpr std::string_view kEndings[] = {"-unsloth-bnb-4bit",
                                           "-bnb-4bit",
                                           "-instruct",
                                           "-chat",
                                           "-hf",
                                           "-base",
                                           "-it",
                                           "-sft",
                                           "-pt",
                                           "-fp16",
                                           "-bf16",
                                           "-awq",
                                           "-gptq-int4",
                                           "-gptq-int8",
                                           "-gptq",
                                           "-int4",
                                           "-int8",
                                           "-fp8",
                                           "-nvfp4"};
  std::string_view rest = last;
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::string_view ending : kEndings) {
      if (!rest.ends_with(ending)) continue;
      rest.remove_suffix(ending.size());
      changed = true;
      if (const std::string* found = look(rest)) return found;
      for (const std::string_view other : {"-instruct", "-base", "-hf", "-it"})
        if (const std::string* found = look(std::string(rest) + std::string(other))) return found;
    }
  }
  for (const std::string_view other : {"-instruct", "-base", "-hf", "-it"})
    if (const std::string* found = look(std::string(rest) + std::string(other))) return found;
  return nullptr;
}

// Words in the name of a descendant that say that its layers are not those of the model that it was made from.
constexpr std::string_view kOtherShapes[] = {
    "vl",    "vlm",   "vision",     "visual",   "omni",   "audio", "speech", "moe",   "mtp",  "video",
    "image", "llava", "multimodal", "ocr",      "eagle",  "draft", "pruned", "mini",  "tiny", "small",
    "slim",  "embed", "embedding",  "reranker", "reward", "rm",    "layer",  "layers"};

// A number and a letter for thousands of millions or millions: "7b", "0.6b", "8x7b", "350m".
bool is_size(std::string_view word) {
  if (word.size() < 2 || (word.back() != 'b' && word.back() != 'm')) return false;
  word.remove_suffix(1);
  return std::all_of(word.begin(), word.end(),
                     [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' || c == 'x'; });
}

// "v3", "r1", "k2": families of one size.
bool is_generation(std::string_view word) {
  return word.size() >= 2 && std::isalpha(static_cast<unsigned char>(word.front())) != 0 &&
         std::isdigit(static_cast<unsigned char>(word[1])) != 0;
}

}  // namespace

const std::vector<CatalogEntry>& catalog_entries() { return catalog().entries; }

Result<Architecture> find_model(std::string_view name) {
  if (const std::optional<Node> entry = entry_written(name)) {
    PLIMSOLL_TRY(model, read_hf_config(*entry->find("hf")));
    model.name = name;
    return model;
  }
  const std::string* known = find_name(name);
  if (known == nullptr)
    return bad_input(fmt::format("model '{}' is not in the catalogue", name.substr(0, 200)), suggest(name));
  const std::size_t index = catalog().names.at(*known);
  PLIMSOLL_TRY(model, read_hf_config(catalog().configs[index]));
  model.name = catalog().entries[index].name;
  if (const auto other = catalog().rope_bases.find(*known); other != catalog().rope_bases.end())
    model.rope_base = other->second;
  return model;
}

std::string ancestor_in_name(std::string_view name) {
  constexpr std::size_t kLongest = 200;
  if (name.size() > kLongest || find_name(name) != nullptr) return {};
  std::string last = lower(without_owner(name));
  std::replace(last.begin(), last.end(), '_', '-');
  for (const std::string_view word : split(last, '-'))
    if (std::find(std::begin(kOtherShapes), std::end(kOtherShapes), word) != std::end(kOtherShapes)) return {};
  for (std::size_t cut = last.rfind('-'); cut != std::string::npos && cut > 0; cut = last.rfind('-')) {
    last.resize(cut);
    // Without its size a name is a family's, and a family has many shapes.
    bool has_size = false;
    for (const std::string_view word : split(last, '-')) has_size = has_size || is_size(word) || is_generation(word);
    if (!has_size) return {};
    if (const std::string* found = find_name(last)) return catalog().entries[catalog().names.at(*found)].name;
  }
  return {};
}

}  // namespace plimsoll::model
