// SPDX-License-Identifier: Apache-2.0
#include "job/readers/shell_variables.h"

#include <algorithm>

#include <fmt/format.h>

namespace plimsoll::job {

namespace {

// Everything that a script expands to, together: words that double each other would otherwise fill memory.
constexpr std::size_t kMaxBytes = 8 << 20;
constexpr std::size_t kMaxExpandedWords = 100'000;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

std::size_t bytes_of(const std::vector<ShellWord>& words) {
  std::size_t bytes = 0;
  for (const ShellWord& word : words) {
    bytes += word.text.size() + 1;
    for (const std::string& unknown : word.unknown) bytes += unknown.size();
  }
  return bytes;
}

ShellWord unknown_word(std::string name) {
  ShellWord word{marked(name), {}};
  word.unknown.push_back(std::move(name));
  return word;
}

// Signs of the shell that a name between marks may not have, and what stands for them.
constexpr std::string_view kSigns = " ()${}";
constexpr std::string_view kStandIns = "\x02\x03\x04\x05\x06\x07";

}  // namespace

std::string marked(std::string_view name) {
  std::string text(1, kUnknownMark);
  for (const char c : name.substr(0, 80)) {
    const std::size_t sign = kSigns.find(c);
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                          c == '-' || c == ':' || c == '[' || c == ']' || c == '%' || c == '@' || c == '.';
    text += sign != std::string_view::npos ? kStandIns[sign] : is_plain ? c : '?';
  }
  return text += kUnknownMark;
}

// Each name once and only the first few: a message names one of them.
std::string with_plain_quotes(std::string_view text) {
  std::string raw;
  for (const char c : text) {
    if (c == '"' || c == '\'') raw += '\\';
    raw += c;
  }
  return raw;
}

std::vector<std::string> marked_names(std::string_view text) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> names;
  for (std::size_t at = text.find(kUnknownMark); at != std::string_view::npos && names.size() < kNamed;) {
    const std::size_t end = text.find(kUnknownMark, at + 1);
    if (end == std::string_view::npos) break;
    std::string name(text.substr(at + 1, end - at - 1));
    for (char& c : name)
      if (const std::size_t sign = kStandIns.find(c); sign != std::string_view::npos) c = kSigns[sign];
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    at = text.find(kUnknownMark, end + 1);
  }
  return names;
}

std::string without_marks(std::string_view text) {
  std::string result;
  while (true) {
    const std::size_t at = text.find(kUnknownMark);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    const std::size_t end = text.find(kUnknownMark, at + 1);
    if (end == std::string_view::npos) return result;
    text.remove_prefix(end + 1);
  }
}

bool is_name(std::string_view text) {
  return !text.empty() && is_name_start(text.front()) && std::all_of(text.begin(), text.end(), is_name_char);
}

Status ShellVariables::spend(std::size_t bytes, std::size_t words) {
  bytes_ += bytes;
  words_ += words;
  if (bytes_ > kMaxBytes || words_ > kMaxExpandedWords) return bad_input("the script expands beyond any launch script");
  return {};
}

void ShellVariables::remember(std::string_view name) {
  if (branches_.empty() || branches_.back().contains(name)) return;
  const ShellVariable* variable = find(name);
  branches_.back().emplace(std::string(name), variable == nullptr ? std::nullopt : std::optional(*variable));
}

Status ShellVariables::set(std::string_view name, std::vector<ShellWord> words, bool is_array, bool append) {
  const ShellVariable* before = find(name);
  if (!branches_.empty() && before != nullptr && !branches_.back().contains(name))
    PLIMSOLL_TRY_STATUS(spend(bytes_of(before->words), before->words.size()));
  remember(name);
  PLIMSOLL_TRY_STATUS(spend(bytes_of(words), words.size()));
  ShellVariable& variable = variables_[std::string(name)];
  if (!append) {
    variable.words = std::move(words);
    variable.is_array = is_array;
  } else if (is_array || variable.is_array) {
    std::move(words.begin(), words.end(), std::back_inserter(variable.words));
    variable.is_array = true;
  } else {
    if (variable.words.empty()) variable.words.emplace_back();
    ShellWord& whole = variable.words.front();
    for (const ShellWord& word : words) {
      whole.text += word.text;
      if (!word.unknown.empty()) whole.unknown = marked_names(whole.text);
    }
  }
  return {};
}

void ShellVariables::unset(std::string_view name) {
  remember(name);
  if (const auto found = variables_.find(name); found != variables_.end()) variables_.erase(found);
}

const ShellVariable* ShellVariables::find(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

void ShellVariables::begin_branch() { branches_.emplace_back(); }

Result<ShellVariables::Changes> ShellVariables::end_branch() {
  Changes before = std::move(branches_.back());
  branches_.pop_back();
  Changes after;
  for (auto& [name, old] : before) {
    const auto now = variables_.find(name);
    after.emplace(name, now == variables_.end() ? std::nullopt : std::optional(std::move(now->second)));
    if (old) {
      variables_[name] = std::move(*old);
    } else if (now != variables_.end()) {
      variables_.erase(now);
    }
  }
  return after;
}

Status ShellVariables::merge(const std::vector<Changes>& branches) {
  std::set<std::string, std::less<>> names;
  for (const Changes& changes : branches)
    for (const auto& change : changes) names.insert(change.first);
  for (const std::string& name : names) {
    const ShellVariable* before = find(name);
    const auto in_branch = [&](const Changes& changes) -> const ShellVariable* {
      const auto found = changes.find(name);
      if (found == changes.end()) return before;
      return found->second ? &*found->second : nullptr;
    };
    const ShellVariable* first = in_branch(branches.front());
    bool agree = true;
    bool only_extended = before != nullptr && before->is_array;
    for (const Changes& changes : branches) {
      const ShellVariable* other = in_branch(changes);
      agree = agree && (first == nullptr) == (other == nullptr) && (first == nullptr || *first == *other);
      only_extended = only_extended && other != nullptr && other->words.size() >= before->words.size() &&
                      std::equal(before->words.begin(), before->words.end(), other->words.begin());
    }
    ShellVariable merged;
    if (agree) {
      if (first == nullptr) {
        unset(name);
        continue;
      }
      merged = *first;
    } else if (only_extended) {
      merged = *before;
      merged.words.push_back(unknown_word(fmt::format("{} (extended inside a condition)", name)));
    } else {
      merged.words = {unknown_word(fmt::format("{} (set inside a condition)", name))};
      merged.is_array = first != nullptr && first->is_array;
    }
    PLIMSOLL_TRY_STATUS(set(name, std::move(merged.words), merged.is_array, false));
  }
  return {};
}

}  // namespace plimsoll::job
