// SPDX-License-Identifier: Apache-2.0
// What a file of a tool that is not known says, by meaning, and the TrainingArguments that are made of it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/tools/by_names.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

struct Said {
  std::string path;
  Node value;
  bool done = false;
};

inline bool has_segment(std::string_view path, std::string_view wanted) {
  const std::vector<std::string_view> parts = split(path, '.');
  return std::find(parts.begin(), parts.end(), wanted) != parts.end();
}

// Everything that the file says, and what was made of it.
class Sayings {
 public:
  Sayings(const Node& root, Draft& draft) : draft_(draft) {
    result_.kind = Node::Kind::kObject;
    for_each_leaf(root, [this](const std::string& path, const Node& value) {
      if (!value.is_null()) said_.push_back({path, value});
    });
  }

  // The value that the file has for a meaning. What stands in the model's own table gives way (the longest sequence
  // of a model is not the one it is trained with); where two others differ the first counts, and is told.
  const Said* find(std::string_view meaning) {
    const Said* best = nullptr;
    for (Said& one : said_) {
      if (meaning_of(one.path) != meaning) continue;
      one.done = true;
      if (best == nullptr || (has_segment(best->path, "model") && !has_segment(one.path, "model"))) {
        best = &one;
      } else if (!has_segment(one.path, "model") && !same_value(one.value, best->value) &&
                 document::to_text(one.value).find("${") == std::string::npos) {
        draft_.notes.push_back(fmt::format("{}: {} says {}, {} says {}; the first is taken", draft_.path, best->path,
                                           shown(best->value), one.path, shown(one.value)));
      }
    }
    return best;
  }

  std::vector<const Said*> all(std::string_view meaning) {
    std::vector<const Said*> found;
    for (Said& one : said_) {
      if (meaning_of(one.path) != meaning) continue;
      one.done = true;
      found.push_back(&one);
    }
    return found;
  }

  std::optional<std::int64_t> number(std::string_view meaning) {
    const Said* said = find(meaning);
    if (said == nullptr) return std::nullopt;
    const auto value = to_integer(said->value, Range{1, 1 << 24});
    return value ? std::optional(*value) : std::nullopt;
  }

  bool says_on(std::string_view meaning) {
    const Said* said = find(meaning);
    return said != nullptr && !is_off(said->value);
  }

  void put(std::string_view key, Node value, std::string_view from) {
    if (!from.empty()) draft_.written_names[std::string(key)] = from;
    result_.members.emplace_back(std::string(key), std::move(value));
  }
  [[nodiscard]] bool has_put(std::string_view key) const { return result_.has(key); }
  void assume(std::string_view what) { draft_.notes.push_back(fmt::format("{}: {}", draft_.path, what)); }
  void pass(const std::string& meaning) { static_cast<void>(all(meaning)); }
  // A value that has another meaning than its name stays for the table of unknown keys, which refuses it.
  void leave(const Said& said) {
    for (Said& one : said_)
      if (&one == &said) one.done = false;
  }
  bool any_segment(std::string_view start) const {
    return std::any_of(said_.begin(), said_.end(), [start](const Said& one) {
      const std::vector<std::string_view> parts = split(one.path, '.');
      return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return part.starts_with(start); });
    });
  }
  std::vector<Said>& said() { return said_; }
  Draft& draft() { return draft_; }

  Node finish() {
    for (Said& one : said_)
      if (!one.done) result_.members.emplace_back(one.path, std::move(one.value));
    return std::move(result_);
  }

 private:
  Draft& draft_;
  std::vector<Said> said_;
  Node result_;
};

inline bool contains_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [text](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// "int4", "nf4", "4bit": a type of weights that is a quantisation.
inline bool names_four_bits(std::string_view word) {
  return contains_any(word, {"int4", "nf4", "fp4", "4bit", "4-bit"});
}

// How weights, gradients and states are split over GPUs.
void read_sharding(Sayings& sayings);

// Preference training in the Trainer's words; loops that are not read here are refused by their names.
[[nodiscard]] Status read_preference(Sayings& sayings);
[[nodiscard]] Status refuse_other_loops(Sayings& sayings);

// Adapters, and the quantised base below them.
void read_adapter(Sayings& sayings);
[[nodiscard]] Status refuse_adapters_by_type(Sayings& sayings);

}  // namespace plimsoll::job
