// SPDX-License-Identifier: Apache-2.0
#include "allocator/caching.h"

#include <algorithm>

#include "allocator/segment_size.h"

namespace plimsoll::allocator {

// Before PyTorch 2.9 a fraction of 1.0 that was set counted as a limit too.
CachingAllocator::CachingAllocator(const Settings& settings, Driver& driver)
    : settings_(settings),
      collects_garbage_(settings.gc_threshold > 0 && settings.fraction &&
                        (*settings.fraction < 1 || settings.torch < Version{2, 9})),
      rounds_to_units_(std::all_of(settings.divisions.begin(), settings.divisions.end(),
                                   [](std::int64_t divisions) { return divisions <= 1; })),
      limits_splits_(settings.max_split_size != kUnlimited),
      driver_(driver) {
  blocks_.reserve(4096);
  add_stream(0);
}

std::uint32_t CachingAllocator::add_stream(std::uint64_t handle) {
  const auto found = std::find(streams_.begin(), streams_.end(), handle);
  if (found != streams_.end()) return static_cast<std::uint32_t>(found - streams_.begin());
  const auto number = static_cast<std::uint32_t>(streams_.size());
  streams_.push_back(handle);
  const auto at = std::lower_bound(stream_order_.begin(), stream_order_.end(), handle,
                                   [this](std::uint32_t stream, std::uint64_t h) { return streams_[stream] < h; });
  stream_order_.insert(at, number);
  return number;
}

CachingAllocator::Cache& CachingAllocator::new_cache(std::uint32_t pool, std::uint32_t stream) {
  if (pool >= pools_.size()) pools_.resize(pool + 1);
  std::vector<Cache>& caches = pools_[pool].by_stream;
  if (stream >= caches.size()) caches.resize(stream + 1);
  pools_[pool].streams = caches.size();
  return caches[stream];
}

const CachingAllocator::Cache* CachingAllocator::find_cache(std::uint32_t pool, std::uint32_t stream) const {
  if (pool >= pools_.size() || stream >= pools_[pool].by_stream.size()) return nullptr;
  return &pools_[pool].by_stream[stream];
}

std::int64_t CachingAllocator::segment_bytes(std::int64_t bytes) const {
  return segment_size(rounded(bytes), settings_.large_segment);
}

BlockId CachingAllocator::new_block() {
  const BlockId id = spare_block();
  at(id) = Block{};
  return id;
}

BlockId CachingAllocator::cut_back(BlockId id, std::int64_t size) {
  const BlockId back = spare_block();
  Block& block = at(id);
  Block& tail = at(back);
  tail = block;
  tail.size = size;
  tail.address = block.address + static_cast<Address>(block.size - size);
  tail.prev = id;
  if (tail.next != kNoBlock) at(tail.next).prev = back;
  block.next = back;
  block.size -= size;
  return back;
}

void CachingAllocator::took(std::int64_t bytes) {
  ++stats_.device_allocs;
  stats_.reserved += bytes;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
}

void CachingAllocator::gave(std::int64_t bytes) {
  ++stats_.device_frees;
  stats_.reserved -= bytes;
}

std::int64_t CachingAllocator::allowed() const {
  return static_cast<std::int64_t>(settings_.fraction.value_or(1) * static_cast<double>(driver_.total()));
}

bool CachingAllocator::over_limit(std::int64_t more) const {
  return settings_.fraction.value_or(1) < 1 && stats_.reserved + more > allowed();
}

// In expandable mode the tail that can still grow is used last.
BlockId CachingAllocator::best_fit_beside(const FreeSet& free, BlockId found, std::int64_t rounded) const {
  // One that cannot grow reaches no further than its size, and none after it is smaller.
  if (grows(at(found)) && settings_.expandable_segments) {
    const auto reach = [this](BlockId id) { return at(id).size + (grows(at(id)) ? at(at(id).next).size : 0); };
    for (BlockId next = free.after(blocks_, found);
         next != kNoBlock && at(found).expandable() && reach(next) < reach(found); next = free.after(blocks_, next))
      found = next;
  }
  if (settings_.max_split_size == kUnlimited) return found;
  const std::int64_t size = at(found).size;
  if (rounded < settings_.max_split_size && size >= settings_.max_split_size) return kNoBlock;
  if (rounded >= settings_.max_split_size && size >= rounded + settings_.max_non_split_rounding) return kNoBlock;
  return found;
}

bool CachingAllocator::would_hit(const Request& request) const {
  const Place place = place_of(request);
  const Cache* cache = find_cache(place.cache, place.stream);
  return cache != nullptr && best_fit(cache->free, place.rounded) != kNoBlock;
}

void CachingAllocator::note_use(BlockId block) {
  if (last_use_.size() < blocks_.size()) last_use_.resize(blocks_.size());
  last_use_[index(block)] = pools_[at(block).cache].searches;
}

BlockId CachingAllocator::new_segment(const Place& place) {
  const std::int64_t size = segment_bytes(place.rounded);
  if (over_limit(size)) return kNoBlock;
  if (settings_.expandable_segments) return grow_expandable(place);
  const std::optional<Address> address = driver_.allocate(size);
  if (!address) return kNoBlock;
  took(size);
  const BlockId id = new_block();
  Block& block = at(id);
  block.address = *address;
  block.size = size;
  block.cache = place.cache;
  block.stream = place.stream;
  return id;
}

// The front of a block that is in no set; its rest goes into one.
BlockId CachingAllocator::cut(BlockId id, std::int64_t rounded) {
  if (!splits(at(id), rounded)) return id;
  const BlockId front = cut_front(id, rounded);
  insert_free(id);
  return front;
}

// Section 6. A request of a private pool may be part of a capture, where nothing is released before PyTorch 2.12.
BlockId CachingAllocator::ask_driver(const Place& place, std::uint32_t pool) {
  if (collects_garbage_) collect_garbage();
  BlockId id = new_segment(place);
  if (id != kNoBlock) return cut(id, place.rounded);
  const bool rejected = settings_.throws_at_limit && over_limit(segment_bytes(place.rounded));
  if (!rejected && release_oversize(place)) id = new_segment(place);
  if (id == kNoBlock && !rejected && (pool == 0 || settings_.torch >= Version{2, 12})) {
    release_all(settings_.torch >= Version{2, 8} ? 0 : pool);
    ++stats_.retries;
    id = new_segment(place);
  }
  if (id != kNoBlock) return cut(id, place.rounded);
  ++stats_.ooms;
  return kNoBlock;
}

void CachingAllocator::request_free(BlockId id) {
  Block& block = at(id);
  block.allocated = false;
  block.pending = true;
  block.pending_at = static_cast<std::uint32_t>(pending_.size());
  pending_.push_back(id);
  stats_.allocated -= block.size;
  stats_.pending += block.size;
}

void CachingAllocator::complete_free(BlockId id) {
  Block& block = at(id);
  pending_[block.pending_at] = pending_.back();
  at(pending_.back()).pending_at = block.pending_at;
  pending_.pop_back();
  block.pending = false;
  stats_.pending -= block.size;
  make_free(id);
}

}  // namespace plimsoll::allocator
