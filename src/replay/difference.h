// SPDX-License-Identifier: Apache-2.0
// Which origins explain the difference between the peaks of two histories. Origins are told apart by their
// functions and files, not by line numbers, which move from commit to commit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/attribution.h"

namespace plimsoll::replay {

struct Side {
  std::int64_t bytes = 0;
  std::size_t count = 0;
  std::int64_t largest = 0;
};

struct DifferenceRow {
  std::string text;
  std::string line_a;  // with line numbers, where the side has it
  std::string line_b;
  Side a;
  Side b;

  [[nodiscard]] std::int64_t delta() const { return b.bytes - a.bytes; }
};

struct PeakDifference {
  std::int64_t requested_a = 0;
  std::int64_t requested_b = 0;
  std::vector<DifferenceRow> categories;  // in their order
  std::vector<DifferenceRow> origins;     // largest change first
  std::vector<DifferenceRow> sizes;       // by the size of one object, largest change first
};

struct PeakOf {
  const History* history = nullptr;
  const Attribution* attribution = nullptr;
  std::uint32_t op = 0;
};

[[nodiscard]] PeakDifference compare_peaks(const PeakOf& a, const PeakOf& b);

}  // namespace plimsoll::replay
