// SPDX-License-Identifier: Apache-2.0
#include "base/suggest.h"

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll {

namespace {

constexpr std::size_t kLeastBeginning = 3;

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

std::string did_you_mean(std::string_view word, const std::vector<std::string>& values) {
  std::string meant = nearest(word, values);
  if (meant.empty() && word.size() >= kLeastBeginning)  // "megatron" for megatron-lm: the shortest that begins with it
    for (const std::string& value : values)
      if (value.starts_with(word) && (meant.empty() || value.size() < meant.size())) meant = value;
  return meant.empty() ? std::string{} : fmt::format("did you mean {}?", meant);
}

std::string did_you_mean(std::string_view word, std::string_view list) {
  return did_you_mean(word, listed_values(list));
}

}  // namespace plimsoll
