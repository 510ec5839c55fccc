// SPDX-License-Identifier: Apache-2.0
// Plays the operations of a history to an allocator, one at a time. Invariant: block(object) is the block of every
// object that is alive, and kNoBlock for all others.
#pragma once

#include <vector>

#include "allocator/caching.h"
#include "replay/history.h"

namespace plimsoll::replay {

class Player {
 public:
  Player(const History& history, const allocator::Settings& settings, allocator::Driver& driver)
      : history_(history), allocator_(settings, driver), block_(history.objects.size(), allocator::kNoBlock) {
    for (const std::uint64_t handle : history.snapshot->streams) streams_.push_back(allocator_.add_stream(handle));
  }

  // Starts from the recorded segments, or, under other settings, by allocating what was alive in order of address.
  void restore_start();
  [[nodiscard]] bool allocate_start();

  [[nodiscard]] allocator::Request request(std::uint32_t object) const {
    return {history_.bytes_of(object), streams_[history_.stream_of(object)], history_.pool_of(object), object};
  }
  // Of an oom event, whose size is a rounded one.
  [[nodiscard]] allocator::Request oom_request(std::uint32_t event) const {
    const snapshot::Events& events = history_.snapshot->events;
    return {events.size[event], streams_[events.stream[event]], 0, kNever};
  }

  [[nodiscard]] bool allocate(std::uint32_t object) {
    const auto block = allocator_.allocate(request(object));
    forget_completed();
    if (!block) return false;
    block_[object] = *block;
    return true;
  }
  // A request that the recorded run could not serve: whether it can be served now. It is given up again at once,
  // because the record does not say what would have become of it.
  [[nodiscard]] bool try_oom(std::uint32_t event) {
    const auto block = allocator_.allocate(oom_request(event));
    forget_completed();
    if (block) allocator_.free(*block);
    return block.has_value();
  }
  void free(std::uint32_t object) {
    if (block_[object] == allocator::kNoBlock) return;
    allocator_.free(block_[object]);
    block_[object] = allocator::kNoBlock;
  }
  void request_free(std::uint32_t object) {
    if (block_[object] != allocator::kNoBlock) allocator_.request_free(block_[object]);
  }
  void complete_free(std::uint32_t object) {
    if (block_[object] == allocator::kNoBlock) return;
    allocator_.complete_free(block_[object]);
    block_[object] = allocator::kNoBlock;
  }
  void empty_cache() {
    allocator_.release_cached();
    forget_completed();
  }

  // Pending frees that a release completed.
  void forget_completed() {
    if (!allocator_.has_completed()) return;
    for (const std::uint32_t object : allocator_.take_completed()) block_[object] = allocator::kNoBlock;
  }

  [[nodiscard]] allocator::BlockId block(std::uint32_t object) const { return block_[object]; }
  void set_block(std::uint32_t object, allocator::BlockId block) { block_[object] = block; }
  [[nodiscard]] std::uint32_t stream(std::uint32_t of_snapshot) const { return streams_[of_snapshot]; }
  [[nodiscard]] allocator::CachingAllocator& allocator() { return allocator_; }
  [[nodiscard]] const allocator::CachingAllocator& allocator() const { return allocator_; }

 private:
  const History& history_;
  allocator::CachingAllocator allocator_;
  std::vector<allocator::BlockId> block_;
  std::vector<std::uint32_t> streams_;  // the allocator's number of each stream of the snapshot
};

}  // namespace plimsoll::replay
