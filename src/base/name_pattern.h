// SPDX-License-Identifier: Apache-2.0
// Regular expressions as lists of parameters use them: characters, classes, groups, alternatives and the repetitions
// *, + and ?. Matching takes time in the product of both lengths, whatever the expression is, because expressions come
// from files that nobody has checked.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll {

class NamePattern {
 public:
  // An error names what is not understood: look-around, counted repetition, back references.
  [[nodiscard]] static Result<NamePattern> read(std::string_view text);
  // Whether the name begins with a match, like Python's re.match.
  [[nodiscard]] bool starts(std::string_view name) const;

  // One step of the machine; jumps are relative to it.
  enum class Op : std::uint8_t { kByte, kFork, kJump, kBegin, kEnd };
  struct Step {
    Op op = Op::kJump;
    std::int32_t first = 1;
    std::int32_t second = 1;
    std::bitset<256> bytes;
  };

 private:
  std::vector<Step> steps_;  // beyond the last: a match
};

}  // namespace plimsoll
