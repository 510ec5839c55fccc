// SPDX-License-Identifier: Apache-2.0
#include "base/suggest.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll {

namespace {

constexpr std::size_t kLeastBeginning = 3;

// "megtron" for megatron-lm: the value whose first part the word is near to.
std::string nearest_beginning(std::string_view word, const std::vector<std::string>& values) {
  constexpr std::size_t kLeast = 5;  // of a shorter word one wrong letter makes another: seed is not seq
  if (word.size() < kLeast) return {};
  std::vector<std::string> beginnings;
  for (const std::string& value : values) beginnings.push_back(value.substr(0, value.find_first_of("-_.")));
  const std::string meant = nearest(word, beginnings);
  if (meant.empty()) return {};
  return values[static_cast<std::size_t>(std::find(beginnings.begin(), beginnings.end(), meant) - beginnings.begin())];
}

}  // namespace

std::vector<std::string> listed_values(std::string_view list) {
  std::vector<std::string> values;
  if (list.starts_with("list of ")) list.remove_prefix(8);
  if (list.find(',') == std::string_view::npos) return values;
  for (const std::string_view part : split(list, ',')) {
    const std::string_view value = trim(part);
    if (!value.empty() && value.find_first_of(" ()'|*") == std::string_view::npos) values.emplace_back(value);
  }
  return values;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& values, std::string_view before) {
  std::string meant = nearest(word, values);
  const auto take_shortest = [&](const auto& is_meant) {
    if (!meant.empty() || word.size() < kLeastBeginning) return;
    for (const std::string& value : values)
      if (is_meant(value) && (meant.empty() || value.size() < meant.size())) meant = value;
  };
  // "megatron" for megatron-lm, the shortest that begins with it; "completions" for complete.
  take_shortest([&](const std::string& value) { return value.starts_with(word); });
  take_shortest([&](const std::string& value) {
    return value.size() > kLeastBeginning && word.starts_with(std::string_view(value).substr(0, value.size() - 1));
  });
  if (meant.empty()) meant = nearest_beginning(word, values);
  return meant.empty() ? std::string{} : fmt::format("did you mean {}{}?", before, meant);
}

std::string did_you_mean(std::string_view word, std::string_view list) {
  return did_you_mean(word, listed_values(list));
}

}  // namespace plimsoll
