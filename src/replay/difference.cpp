// SPDX-License-Identifier: Apache-2.0
#include "replay/difference.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "base/bytes.h"
#include "replay/event_text.h"

namespace plimsoll::replay {

namespace {

// "forward model.py < run train.py": every frame without its line.
std::string origin_key(const snapshot::Snapshot& snapshot, std::uint32_t stack) {
  if (stack == snapshot::kNoStack || snapshot.stacks[stack].count == 0) return "no Python stack";
  std::string key;
  const snapshot::Range range = snapshot.stacks[stack];
  for (std::uint32_t i = range.first; i < range.first + range.count; ++i) {
    const snapshot::Frame& frame = snapshot.frames[snapshot.stack_frames[i]];
    key += fmt::format("{} {} < ", snapshot.text(frame.name), snapshot.text(frame.filename));
  }
  return key;
}

void add(Side& side, std::int64_t bytes) {
  side.bytes += bytes;
  ++side.count;
  side.largest = std::max(side.largest, bytes);
}

std::vector<DifferenceRow> sorted(std::map<std::string, DifferenceRow>& rows) {
  std::vector<DifferenceRow> result;
  for (auto& [key, row] : rows)
    if (row.delta() != 0) result.push_back(std::move(row));
  std::stable_sort(result.begin(), result.end(), [](const DifferenceRow& x, const DifferenceRow& y) {
    return std::abs(x.delta()) > std::abs(y.delta());
  });
  return result;
}

}  // namespace

PeakDifference compare_peaks(const PeakOf& a, const PeakOf& b) {
  PeakDifference result;
  for (std::size_t c = 0; c < kCategories; ++c)
    result.categories.push_back({std::string(text_of(static_cast<Category>(c))), {}, {}, {}, {}});
  std::map<std::string, DifferenceRow> origins;
  std::map<std::string, DifferenceRow> sizes;
  for (const bool second : {false, true}) {
    const PeakOf& peak = second ? b : a;
    const History& history = *peak.history;
    std::map<std::uint32_t, DifferenceRow*> row_of_stack;
    for (const std::uint32_t object : alive_after(history, peak.op)) {
      const std::int64_t bytes = history.bytes_of(object);
      (second ? result.requested_b : result.requested_a) += bytes;
      const std::uint32_t stack = history.stack_of(object);
      DifferenceRow*& row = row_of_stack[stack];
      if (row == nullptr) {
        row = &origins[origin_key(*history.snapshot, stack)];
        std::string line = stack_line(*history.snapshot, stack);
        if (line.empty()) line = "no Python stack";
        if (row->text.empty() || second) row->text = line;
        (second ? row->line_b : row->line_a) = line;
      }
      DifferenceRow& size = sizes[std::to_string(bytes)];
      if (size.text.empty()) size.text = fmt::format("{} each", format_bytes(bytes));
      DifferenceRow& category = result.categories[static_cast<std::size_t>(peak.attribution->of(object))];
      for (DifferenceRow* each : {row, &size, &category}) add(second ? each->b : each->a, bytes);
    }
  }
  result.origins = sorted(origins);
  result.sizes = sorted(sizes);
  return result;
}

}  // namespace plimsoll::replay
