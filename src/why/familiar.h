// SPDX-License-Identifier: Apache-2.0
// Lines by their words, whatever their numbers: a line of training steps is read a thousand times; after that it tells
// nothing that one in some hundreds of them does not, and a long log of it need not be read line by line.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

namespace plimsoll::why {

// A hash of the text without its digits.
[[nodiscard]] std::uint64_t words_hash(std::string_view text);

class FamiliarLines {
 public:
  enum class Worth { kNew, kSample, kNothing };
  // kNothing: lines of these words have told nothing so often that this one may be passed over; kSample: they have, and
  // yet this one is to be read.
  [[nodiscard]] Worth worth_of(std::uint64_t words);
  // A line of these words was read; `told`: it reported something, or another phase began with it.
  void was_read(std::uint64_t words, bool told);
  // How many lines in a row were of words that are known to tell nothing.
  [[nodiscard]] std::int64_t streak() const { return streak_; }

 private:
  std::int64_t streak_ = 0;
  std::unordered_map<std::uint64_t, std::int32_t> seen_;  // times it told nothing; kTelling: it once did
};

}  // namespace plimsoll::why
