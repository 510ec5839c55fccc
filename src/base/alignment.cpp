// SPDX-License-Identifier: Apache-2.0
// E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1 (1986), the greedy form.
#include "base/alignment.h"

#include <algorithm>

namespace plimsoll {

namespace {

using Index = std::ptrdiff_t;

// How far each diagonal k = x - y reaches with d edits; row d holds k from -d to d. A diagonal may run past an end; no
// path comes back from there.
using Rows = std::vector<std::vector<Index>>;

Index reach(const std::vector<Index>& row, Index d, Index k) { return row[static_cast<std::size_t>(k + d)]; }

// Whether the step to diagonal k took an element of b (down) rather than one of a.
bool came_down(const std::vector<Index>& before, Index d, Index k) {
  return k == -d || (k != d && reach(before, d - 1, k - 1) < reach(before, d - 1, k + 1));
}

// Empty where the sequences differ in more than most_edits elements.
Rows rows_until_end(std::span<const std::int64_t> a, std::span<const std::int64_t> b, Index most_edits) {
  const auto size_a = static_cast<Index>(a.size());
  const auto size_b = static_cast<Index>(b.size());
  Rows rows;
  for (Index d = 0; d <= std::min(most_edits, size_a + size_b); ++d) {
    std::vector<Index> row(static_cast<std::size_t>(2 * d + 1));
    for (Index k = -d; k <= d; k += 2) {
      Index x = 0;
      if (d > 0)
        x = came_down(rows.back(), d, k) ? reach(rows.back(), d - 1, k + 1) : reach(rows.back(), d - 1, k - 1) + 1;
      Index y = x - k;
      while (x < size_a && y < size_b && a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(y)]) ++x, ++y;
      row[static_cast<std::size_t>(k + d)] = x;
      if (x == size_a && y == size_b) {
        rows.push_back(std::move(row));
        return rows;
      }
    }
    rows.push_back(std::move(row));
  }
  return {};
}

}  // namespace

Alignment align(std::span<const std::int64_t> a, std::span<const std::int64_t> b, std::size_t most_edits) {
  std::size_t head = 0;
  while (head < std::min(a.size(), b.size()) && a[head] == b[head]) ++head;
  std::size_t tail = 0;
  while (tail < std::min(a.size(), b.size()) - head && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  const auto middle_a = a.subspan(head, a.size() - head - tail);
  const auto middle_b = b.subspan(head, b.size() - head - tail);
  Alignment found;
  const Rows rows = rows_until_end(middle_a, middle_b, static_cast<Index>(most_edits));
  if (rows.empty()) {
    for (std::size_t i = 0; i < middle_a.size(); ++i) found.only_a.push_back(head + i);
    for (std::size_t i = 0; i < middle_b.size(); ++i) found.only_b.push_back(head + i);
    return found;
  }
  auto x = static_cast<Index>(middle_a.size());
  auto y = static_cast<Index>(middle_b.size());
  for (auto d = static_cast<Index>(rows.size()) - 1; d > 0; --d) {
    const std::vector<Index>& before = rows[static_cast<std::size_t>(d - 1)];
    const Index k = x - y;
    if (came_down(before, d, k)) {
      x = reach(before, d - 1, k + 1);
      y = x - (k + 1);
      found.only_b.push_back(head + static_cast<std::size_t>(y));
    } else {
      x = reach(before, d - 1, k - 1);
      y = x - (k - 1);
      found.only_a.push_back(head + static_cast<std::size_t>(x));
    }
  }
  std::reverse(found.only_a.begin(), found.only_a.end());
  std::reverse(found.only_b.begin(), found.only_b.end());
  return found;
}

}  // namespace plimsoll
