// SPDX-License-Identifier: Apache-2.0
// Which elements of two sequences stand in both, in the same order: the longest common subsequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

struct Alignment {
  std::vector<std::size_t> only_a;  // indices of what the other sequence lacks, ascending
  std::vector<std::size_t> only_b;
};

// Sequences that differ in more than `most_edits` elements are aligned at both ends alone, and all between counts as
// different: the work grows with the square of the differences.
[[nodiscard]] Alignment align(std::span<const std::int64_t> a, std::span<const std::int64_t> b,
                              std::size_t most_edits = 2000);

}  // namespace plimsoll
