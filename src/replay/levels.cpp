// SPDX-License-Identifier: Apache-2.0
#include "replay/levels.h"

namespace plimsoll::replay {

void Levels::begin(const History& history, const allocator::Stats& stats) {
  units_.assign(history.objects.size(), 0);
  for (const Initial& initial : history.initial)
    if (!initial.pending) units_[initial.object] = static_cast<std::uint32_t>(initial.size / kUnit);
  allocated_at_start_ = allocated_ = stats.allocated;
  last_event_ = history.events.first;
  changes_.assign(1, {history.events.first, stats.reserved});
}

void Levels::after(const Op& op, const allocator::Stats& stats) {
  const std::int64_t change = stats.allocated - allocated_;
  // What was alive at the start shows the size of its block at the latest when it goes.
  if (op.kind == OpKind::kAlloc && change > 0) units_[op.object] = static_cast<std::uint32_t>(change / kUnit);
  if ((op.kind == OpKind::kFree || op.kind == OpKind::kRequestFree) && change < 0)
    units_[op.object] = static_cast<std::uint32_t>(-change / kUnit);
  allocated_ = stats.allocated;
  last_event_ = op.event;
  if (stats.reserved != changes_.back().reserved) changes_.push_back({op.event, stats.reserved});
}

}  // namespace plimsoll::replay
