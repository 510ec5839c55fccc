// SPDX-License-Identifier: Apache-2.0
// Ways in which cached memory goes back to the driver: garbage collection, oversize blocks, everything (facts
// pytorch-allocator.md 7, 8).
#include <algorithm>

#include "allocator/caching.h"

namespace plimsoll::allocator {

void CachingAllocator::release_segment(Cache& cache, FreeSet::Position position) {
  const BlockId id = cache.free.at(position).block;
  driver_.release(at(id).address, at(id).size);
  gave(at(id).size);
  cache.free.erase(position);
  drop_block(id);
}

// Before PyTorch 2.9 a fraction of 1.0 that was set counted as a limit too.
bool CachingAllocator::collects_garbage() const {
  if (settings_.gc_threshold <= 0 || !settings_.fraction) return false;
  return *settings_.fraction < 1 || settings_.torch < Version{2, 9};
}

// Unsplit blocks of the default large pool that were not used for longer than the mean go back, in rounds, until
// reserved memory is under the threshold. A round is not cut short when it is.
void CachingAllocator::collect_garbage() {
  constexpr std::uint32_t kDefaultLarge = 1;
  const auto limit = static_cast<std::int64_t>(settings_.gc_threshold * static_cast<double>(allowed()));
  if (stats_.reserved <= limit || pools_.size() <= kDefaultLarge) return;
  const std::int64_t target = stats_.reserved - limit;
  Pool& pool = pools_[kDefaultLarge];
  const auto age = [&pool, this](BlockId id) { return static_cast<double>(pool.searches - at(id).gc_base); };
  double ages = 0;
  std::int64_t count = 0;
  for (const Cache& cache : pool.by_stream) {
    for (auto it = cache.free.begin(); it != cache.free.end(); it = cache.free.next(it)) {
      if (!at(cache.free.at(it).block).whole()) continue;
      ages += age(cache.free.at(it).block);
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
      for (auto it = cache.free.begin(); it != cache.free.end();) {
        const FreeSet::Key key = cache.free.at(it);
        if (at(key.block).expandable() || !at(key.block).whole() || age(key.block) < threshold) {
          it = cache.free.next(it);
          continue;
        }
        reclaimed += key.size;
        ages -= age(key.block);
        --count;
        freed = true;
        ++stats_.collected;
        release_segment(cache, it);
        it = cache.free.lower_bound(key.size, key.address);
      }
    }
  }
}

// The first cached block of max_split_size and more that is large enough alone, else from the largest down until
// their sum is. What was given back stays so when the sum is too small.
bool CachingAllocator::release_oversize(const Place& place) {
  if (settings_.max_split_size == kUnlimited) return false;
  Cache& cache = cache_at(place.cache, place.stream);
  const auto releasable = [&](FreeSet::Position position) {
    const Block& block = at(cache.free.at(position).block);
    return !block.expandable() && block.whole();
  };
  const std::int64_t wanted = std::max(place.rounded, settings_.max_split_size);
  FreeSet::Position position = cache.free.lower_bound(wanted);
  if (position != cache.free.end() && releasable(position)) {
    release_segment(cache, position);
    return true;
  }
  std::int64_t sum = 0;
  while (sum < wanted && position != cache.free.begin()) {
    const FreeSet::Position below = cache.free.previous(position);
    const FreeSet::Key key = cache.free.at(below);
    if (key.size < settings_.max_split_size) break;
    position = below;
    if (!releasable(below)) continue;
    sum += key.size;
    release_segment(cache, below);
    position = cache.free.lower_bound(key.size, key.address);
  }
  return sum >= wanted;
}

void CachingAllocator::release_pool(std::uint32_t number) {
  if (number >= pools_.size()) return;
  std::vector<BlockId> expandable;
  for (const std::uint32_t stream : stream_order_) {
    if (stream >= pools_[number].by_stream.size()) continue;
    Cache& cache = pools_[number].by_stream[stream];
    for (auto it = cache.free.begin(); it != cache.free.end();) {
      const FreeSet::Key key = cache.free.at(it);
      if (at(key.block).expandable()) expandable.push_back(key.block);
      if (at(key.block).expandable() || !at(key.block).whole()) {
        it = cache.free.next(it);
        continue;
      }
      release_segment(cache, it);
      it = cache.free.lower_bound(key.size, key.address);
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
