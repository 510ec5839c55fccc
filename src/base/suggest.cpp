// SPDX-License-Identifier: Apache-2.0
#include "base/suggest.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll {

namespace {

// One letter more, less, changed or swapped with the next.
bool differs_by_one(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > 1) return false;
  const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin());
  const std::string_view rest_a = a.substr(static_cast<std::size_t>(left - a.begin()));
  const std::string_view rest_b = b.substr(static_cast<std::size_t>(right - b.begin()));
  if (a.size() != b.size()) return rest_a == rest_b.substr(1);
  if (rest_a.empty() || rest_a.substr(1) == rest_b.substr(1)) return true;
  return rest_a.size() > 1 && rest_a[0] == rest_b[1] && rest_a[1] == rest_b[0] && rest_a.substr(2) == rest_b.substr(2);
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

std::string did_you_mean(std::string_view word, const std::vector<std::string>& values) {
  if (word.empty()) return {};
  // Of a short word two wrong letters are most of it: trl is not verl.
  constexpr std::size_t kShort = 4;
  std::vector<std::string> close;
  for (const std::string& value : values)
    if (word.size() > kShort || differs_by_one(word, value)) close.push_back(value);
  const std::string meant = nearest(word, close);
  return meant.empty() ? std::string{} : fmt::format("did you mean {}?", meant);
}

std::string did_you_mean(std::string_view word, std::string_view list) {
  return did_you_mean(word, listed_values(list));
}

}  // namespace plimsoll
