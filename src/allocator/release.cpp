// SPDX-License-Identifier: Apache-2.0
// Ways in which cached memory goes back to the driver: garbage collection, oversize blocks, everything (facts
// pytorch-allocator.md 7, 8).
#include <algorithm>

#include "allocator/caching.h"

namespace plimsoll::allocator {

void CachingAllocator::release_segment(Cache& cache, BlockId id) {
  driver_.release(at(id).address, at(id).size);
  gave(at(id).size);
  cache.free.erase(blocks_, id);
  drop_block(id);
}

// Unsplit blocks of the default large pool that were not used for longer than the mean go back, in rounds, until
// reserved memory is under the threshold. A round is not cut short when it is.
void CachingAllocator::collect_garbage() {
  constexpr std::uint32_t kDefaultLarge = 1;
  const auto limit = static_cast<std::int64_t>(settings_.gc_threshold * static_cast<double>(allowed()));
  if (stats_.reserved <= limit || pools_.size() <= kDefaultLarge) return;
  const std::int64_t target = stats_.reserved - limit;
  Pool& pool = pools_[kDefaultLarge];
  const auto age = [&pool, this](BlockId id) { return static_cast<double>(pool.searches - last_use_[index(id)]); };
  double ages = 0;
  std::int64_t count = 0;
  for (const Cache& cache : pool.by_stream) {
    for (BlockId id = cache.free.first(blocks_); id != kNoBlock; id = cache.free.after(blocks_, id)) {
      if (!at(id).whole()) continue;
      ages += age(id);
      ++count;
    }
  }
  std::int64_t reclaimed = 0;
  for (bool freed = true; reclaimed < target && freed && count > 0;) {
    freed = false;
    const double threshold = ages / static_cast<double>(count);
    for (const std::uint32_t stream : stream_order_) {
      if (stream >= pool.by_stream.size()) continue;
      Cache& cache = pool.by_stream[stream];
      for (BlockId id = cache.free.first(blocks_), next = kNoBlock; id != kNoBlock; id = next) {
        next = cache.free.after(blocks_, id);
        if (at(id).expandable() || !at(id).whole() || age(id) < threshold) continue;
        reclaimed += at(id).size;
        ages -= age(id);
        --count;
        freed = true;
        ++stats_.collected;
        release_segment(cache, id);
      }
    }
  }
}

// The first cached block of max_split_size and more that is large enough alone, else from the largest down until
// their sum is. What was given back stays so when the sum is too small.
bool CachingAllocator::release_oversize(const Place& place) {
  if (settings_.max_split_size == kUnlimited) return false;
  Cache& cache = cache_at(place.cache, place.stream);
  const auto releasable = [this](BlockId id) { return !at(id).expandable() && at(id).whole(); };
  const std::int64_t wanted = std::max(place.rounded, settings_.max_split_size);
  const BlockId enough = cache.free.lower_bound(blocks_, {wanted, 0});
  if (enough != kNoBlock && releasable(enough)) {
    release_segment(cache, enough);
    return true;
  }
  std::int64_t sum = 0;
  BlockId id =
      cache.free.below(blocks_, enough != kNoBlock ? SizeThenAddress(at(enough)) : SizeThenAddress(kUnlimited, 0));
  while (sum < wanted && id != kNoBlock && at(id).size >= settings_.max_split_size) {
    const BlockId below = cache.free.below(blocks_, SizeThenAddress(at(id)));
    if (releasable(id)) {
      sum += at(id).size;
      release_segment(cache, id);
    }
    id = below;
  }
  return sum >= wanted;
}

void CachingAllocator::release_pool(std::uint32_t number) {
  if (number >= pools_.size()) return;
  std::vector<BlockId> expandable;
  for (const std::uint32_t stream : stream_order_) {
    if (stream >= pools_[number].by_stream.size()) continue;
    Cache& cache = pools_[number].by_stream[stream];
    for (BlockId id = cache.free.first(blocks_), next = kNoBlock; id != kNoBlock; id = next) {
      next = cache.free.after(blocks_, id);
      if (at(id).expandable()) expandable.push_back(id);
      if (!at(id).expandable() && at(id).whole()) release_segment(cache, id);
    }
  }
  for (const BlockId id : expandable) unmap(id);
}

void CachingAllocator::complete_pending() {
  while (!pending_.empty()) {
    completed_.push_back(at(pending_.back()).owner);
    complete_free(pending_.back());
  }
}

// Large before small in the default pool, small before large in private ones. A private pool that is not 0 alone is
// released where the version does so.
void CachingAllocator::release_all(std::uint32_t private_pool) {
  complete_pending();
  if (private_pool == 0) {
    release_pool(1);
    release_pool(0);
  }
  for (std::uint32_t number = 2; number < pools_.size(); ++number)
    if (private_pool == 0 || number / 2 == private_pool) release_pool(number);
}

void CachingAllocator::release_cached() { release_all(0); }

}  // namespace plimsoll::allocator
