// SPDX-License-Identifier: Apache-2.0
#include "cli/arguments.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/suggest.h"
#include "base/text.h"

namespace plimsoll::cli {

namespace {

bool reads_as_truth_or_number(std::string_view word) {
  constexpr std::array<std::string_view, 6> kTruths = {"true", "false", "yes", "no", "on", "off"};
  if (std::any_of(kTruths.begin(), kTruths.end(), [&](std::string_view t) { return equals_ignoring_case(t, word); }))
    return true;
  double number = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), number);
  return parsed.ec == std::errc{} && parsed.ptr == word.data() + word.size();
}

// "-" is standard input, and a negative number is a value.
bool looks_like_flag(std::string_view word) {
  return word.size() > 1 && word.front() == '-' && !reads_as_truth_or_number(word);
}

struct Parser {
  std::string_view verb;
  std::span<const std::string> words;
  std::span<const Flag> flags;
  const KeySet* keys;
  std::size_t at = 0;
  Arguments result;

  Status parse();
  Status parse_long(std::string_view word);
  Status parse_short(std::string_view word);
  Status take_flag(const Flag& flag, std::string_view spelling, const std::optional<std::string>& attached);
  Status take_key(const std::string& key, KeyKind kind, std::string_view spelling,
                  const std::optional<std::string>& attached);
  [[nodiscard]] tl::unexpected<Error> unknown(std::string_view spelling, std::string_view name) const;

  // The word after the current one, where it is a value.
  std::optional<std::string> next_value() {
    if (at + 1 >= words.size() || looks_like_flag(words[at + 1])) return std::nullopt;
    return words[++at];
  }
};

tl::unexpected<Error> Parser::unknown(std::string_view spelling, std::string_view name) const {
  std::vector<std::string> candidates;
  for (const Flag& flag : flags) candidates.emplace_back(flag.name);
  if (keys != nullptr)
    for (const std::string& key : keys->names) candidates.push_back(replace(key, '_', '-'));
  std::string hint = did_you_mean(replace(name, '_', '-'), candidates, "--");
  const bool is_unlike_all = hint.empty();
  if (is_unlike_all) hint = fmt::format("plimsoll {} --help lists the flags", verb);
  if (is_unlike_all && keys != nullptr) hint += ", plimsoll keys the keys of a job";
  return usage_error(fmt::format("{} has no flag {}", verb, spelling), std::move(hint));
}

Status Parser::take_flag(const Flag& flag, std::string_view spelling, const std::optional<std::string>& attached) {
  if (!flag.repeats && result.has(flag.name)) return usage_error(fmt::format("{} was given twice", spelling));
  std::string value;
  if (flag.argument.empty()) {
    if (attached) return usage_error(fmt::format("{} takes no value, found '{}'", spelling, *attached));
  } else {
    const std::optional<std::string> found = attached ? attached : next_value();
    if (!found || found->empty()) return usage_error(fmt::format("{} wants {}", spelling, flag.argument));
    value = *found;
    const std::vector<std::string> choices = listed_values(flag.choices);
    if (!choices.empty() && std::find(choices.begin(), choices.end(), value) == choices.end()) {
      const std::vector<std::string> first(choices.begin(), choices.end() - 1);
      return usage_error(fmt::format("{} is '{}'; wanted {} or {}", spelling, value, join(first, ", "), choices.back()),
                         did_you_mean(value, choices));
    }
  }
  result.flags.emplace_back(flag.name, std::move(value));
  return {};
}

Status Parser::take_key(const std::string& key, KeyKind kind, std::string_view spelling,
                        const std::optional<std::string>& attached) {
  const auto same = [&](const auto& given) { return given.first == key; };
  if (std::any_of(result.keys.begin(), result.keys.end(), same))
    return usage_error(fmt::format("{} was given twice", spelling));
  std::optional<std::string> value = attached;
  if (!value && kind == KeyKind::kValue) {
    value = next_value();
    if (!value) return usage_error(fmt::format("{} wants a value", spelling));
  }
  if (!value && kind == KeyKind::kSwitch) {
    if (at + 1 < words.size() && reads_as_truth_or_number(words[at + 1])) value = words[++at];
  }
  result.keys.emplace_back(key, value.value_or("true"));
  return {};
}

Status Parser::parse_long(std::string_view word) {
  const std::size_t equals = word.find('=');
  const std::string_view spelling = word.substr(0, equals);
  const std::string_view name = spelling.substr(2);
  std::optional<std::string> attached;
  if (equals != std::string_view::npos) attached = std::string{word.substr(equals + 1)};

  for (const Flag& flag : flags)
    if (flag.name == name) return take_flag(flag, spelling, attached);
  if (keys == nullptr) return unknown(spelling, name);

  const std::string key = keys->full_name(replace(name, '-', '_'));
  if (const KeyKind kind = keys->kind_of(key); kind != KeyKind::kUnknown)
    return take_key(key, kind, spelling, attached);
  // --no-KEY turns a switch off, unless a framework has that very name as a key.
  if (key.starts_with("no_") && keys->kind_of(key.substr(3)) == KeyKind::kSwitch) {
    if (attached) return usage_error(fmt::format("{} takes no value, found '{}'", spelling, *attached));
    return take_key(key.substr(3), KeyKind::kSwitch, spelling, "false");
  }
  return unknown(spelling, name);
}

Status Parser::parse_short(std::string_view word) {
  for (const Flag& flag : flags)
    if (flag.letter != '\0' && word.size() == 2 && word[1] == flag.letter) return take_flag(flag, word, std::nullopt);
  return unknown(word, word.substr(1));
}

Status Parser::parse() {
  bool only_operands = false;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (only_operands || word == "-" || word.empty() || word.front() != '-') {
      result.operands.push_back(word);
    } else if (word == "--") {
      only_operands = true;
    } else if (word.starts_with("--")) {
      PLIMSOLL_TRY_STATUS(parse_long(word));
    } else {
      PLIMSOLL_TRY_STATUS(parse_short(word));
    }
  }
  return {};
}

}  // namespace

std::optional<std::string> Arguments::value(std::string_view flag) const {
  for (auto it = flags.rbegin(); it != flags.rend(); ++it)
    if (it->first == flag) return it->second;
  return std::nullopt;
}

std::vector<std::string> Arguments::values(std::string_view flag) const {
  std::vector<std::string> found;
  for (const auto& [name, value] : flags)
    if (name == flag) found.push_back(value);
  return found;
}

Result<Arguments> parse_arguments(std::string_view verb, std::span<const std::string> words,
                                  std::span<const Flag> flags, const KeySet* keys) {
  Parser parser{verb, words, flags, keys, 0, {}};
  PLIMSOLL_TRY_STATUS(parser.parse());
  return std::move(parser.result);
}

}  // namespace plimsoll::cli
