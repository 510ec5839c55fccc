// SPDX-License-Identifier: Apache-2.0
// Watches the counters of an allocator while operations are played: where the peaks are, and how memory went over
// the history in equal shares.
#pragma once

#include <algorithm>

#include "replay/run.h"
#include "replay/watcher.h"

namespace plimsoll::replay {

class Tracker {
 public:
  explicit Tracker(const History& history, Watcher* watcher = nullptr)
      : history_(history),
        watcher_(watcher),
        ops_(history.ops.size()),
        length_(history.ops.size() / kSamples + 1),
        next_(length_) {}

  void start(const allocator::Stats& stats) {
    most_allocated_ = stats.peak_allocated;
    most_reserved_ = stats.peak_reserved;
    run_.allocated_at_peak_reserved = stats.allocated;
    if (watcher_ != nullptr) watcher_->begin(history_, stats);
  }

  void after(std::uint32_t op, std::uint32_t event, const allocator::Stats& stats) {
    if (watcher_ != nullptr) watcher_->after(history_.ops[op], stats);
    if (stats.peak_reserved > most_reserved_) {
      most_reserved_ = stats.peak_reserved;
      run_.peak_reserved_op = op;
      run_.allocated_at_peak_reserved = stats.allocated;
    }
    if (stats.peak_allocated > most_allocated_) {
      most_allocated_ = stats.peak_allocated;
      run_.peak_allocated_op = op;
    }
    sample_.allocated = std::max(sample_.allocated, stats.allocated);
    sample_.reserved = std::max(sample_.reserved, stats.reserved);
    if (op + 1 != next_ && op + 1 != ops_) return;
    sample_.event = event;
    run_.samples.push_back(sample_);
    sample_ = {};
    next_ += length_;
  }

  [[nodiscard]] Run& run() { return run_; }

 private:
  const History& history_;
  Watcher* watcher_;
  std::size_t ops_;
  std::size_t length_;
  std::size_t next_;
  std::int64_t most_allocated_ = 0;
  std::int64_t most_reserved_ = 0;
  Sample sample_;
  Run run_;
};

}  // namespace plimsoll::replay
