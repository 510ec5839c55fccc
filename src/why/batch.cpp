// SPDX-License-Identifier: Apache-2.0
#include "why/batch.h"

#include <algorithm>

#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr std::int64_t kLargest = 1 << 16;

// The number that belongs to a key: "=8", ": 8", "='8'", " 8", " is 8", " per device = 8".
std::optional<std::int64_t> number_after(std::string_view rest) {
  constexpr std::size_t kFar = 40;
  std::size_t at = 0;
  while (at < rest.size() && at < kFar && !is_digit(rest[at])) {
    if (rest[at] == ',' || rest[at] == ';' || rest[at] == ')' || rest[at] == '.' || rest[at] == '[')
      return std::nullopt;
    ++at;
  }
  if (at == 0 || at >= rest.size() || at >= kFar) return std::nullopt;
  // A word may stand between them only where a sign leads to the number.
  const std::string_view gap = rest.substr(0, at);
  const bool plain = std::none_of(gap.begin(), gap.end(), [](char c) { return is_letter(c); });
  if (!plain && gap.find('=') == kNone && gap.find(':') == kNone && gap != " is ") return std::nullopt;
  const auto number = leading_integer(rest.substr(at));
  if (!number || *number < 1 || *number > kLargest) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::int64_t> batch_in(std::string_view text) {
  constexpr std::size_t kBefore = 24;
  if (has_any(text, {"reduc", "lower", "decreas", "smaller", "try ", "increas", "suggest"})) return std::nullopt;
  for (const std::string_view key :
       {std::string_view{"batch_size"}, std::string_view{"batch-size"}, std::string_view{"batch size"},
        std::string_view{"batchsize"}, std::string_view{"imgs_per_gpu"}, std::string_view{"samples_per_gpu"},
        std::string_view{"train_micro_batch_size_per_gpu"}}) {
    const std::size_t at = find_word(text, key);
    if (at == kNone) continue;
    const std::size_t from = at > kBefore ? at - kBefore : 0;
    if (has_any(text.substr(from, at - from), {"eval", "valid", "test", "global", "total", "rollout", "prefill"}))
      continue;
    if (const auto number = number_after(text.substr(at + key.size()))) return number;
  }
  return std::nullopt;
}

}  // namespace plimsoll::why
