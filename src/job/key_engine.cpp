// SPDX-License-Identifier: Apache-2.0
#include "job/key_engine.h"

#include <algorithm>

#include "base/suggest.h"
#include "base/text.h"

namespace plimsoll::job {

namespace {

// The first of the words that is not among a key's values, set right.
std::string meant_value(std::string_view words, std::string_view type) {
  const std::vector<std::string> values = listed_values(type);
  for (const std::string_view part : split(words, ',')) {
    std::string word = lower(part);
    std::erase_if(word, [](char c) { return std::string_view(" []\"'\t").find(c) != std::string_view::npos; });
    const auto is_it = [&word](const std::string& value) { return equals_ignoring_case(value, word); };
    if (!word.empty() && std::none_of(values.begin(), values.end(), is_it)) return did_you_mean(word, values);
  }
  return {};
}

}  // namespace

std::string in_key_spelling(std::string_view name) {
  std::string_view bare = trim(name);
  while (bare.starts_with('-')) bare.remove_prefix(1);
  return replace(bare, '-', '_');
}

Error unknown_name(std::string_view name, const std::vector<std::string>& names) {
  constexpr std::size_t kTelling = 4;  // letters; fewer are in too many names
  const std::string wanted = in_key_spelling(name);
  std::string near = nearest(wanted, names);
  if (near.empty() && wanted.size() >= kTelling)
    for (const std::string& candidate : names)
      if (candidate.find(wanted) != std::string::npos && (near.empty() || candidate.size() < near.size()))
        near = candidate;
  return Error{Code::kBadInput,
               fmt::format("unknown key {}", shown(text_node(std::string{name}))),
               {},
               near.empty() ? "" : fmt::format("did you mean '{}'?", near)};
}

Error refused_value(Error error, std::string_view key, const document::Node& value, std::string_view type) {
  error.message = fmt::format("{}: {}", key, error.message);
  if (error.hint.empty()) error.hint = meant_value(document::to_text(value), type);
  return error;
}

}  // namespace plimsoll::job
