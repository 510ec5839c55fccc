// SPDX-License-Identifier: Apache-2.0
#include "allocator/caching.h"

#include <algorithm>

#include "base/checked.h"

namespace plimsoll::allocator {

CachingAllocator::CachingAllocator(const Settings& settings, Driver& driver) : settings_(settings), driver_(driver) {
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
  return caches[stream];
}

const CachingAllocator::Cache* CachingAllocator::find_cache(std::uint32_t pool, std::uint32_t stream) const {
  if (pool >= pools_.size() || stream >= pools_[pool].by_stream.size()) return nullptr;
  return &pools_[pool].by_stream[stream];
}

CachingAllocator::Place CachingAllocator::place_of(const Request& request) const {
  const std::int64_t rounded = round_size(settings_, request.bytes);
  return {rounded, request.stream, request.pool * 2 + (rounded <= kSmallSize ? 0U : 1U)};
}

std::int64_t CachingAllocator::segment_bytes(std::int64_t bytes) const {
  const std::int64_t rounded = round_size(settings_, bytes);
  if (rounded <= kSmallSize) return kSmallSegment;
  if (rounded < kMinLargeAlloc) return settings_.large_segment;
  return round_up(rounded, kRoundLarge);
}

BlockId CachingAllocator::new_block() {
  if (!spare_.empty()) {
    const BlockId id = spare_.back();
    spare_.pop_back();
    at(id) = Block{};
    return id;
  }
  blocks_.emplace_back();
  return static_cast<BlockId>(blocks_.size() - 1);
}

void CachingAllocator::drop_block(BlockId block) {
  at(block).size = 0;
  spare_.push_back(block);
}

void CachingAllocator::insert_free(BlockId block) {
  Block& b = at(block);
  b.gc_base = pools_[b.cache].searches;
  cache_of(b).free.insert({b.size, b.address, block});
}

void CachingAllocator::erase_free(BlockId block) {
  const Block& b = at(block);
  cache_of(b).free.erase(b.size, b.address);
}

// The front of a block as a block of its own, before it.
BlockId CachingAllocator::cut_front(BlockId id, std::int64_t size) {
  const BlockId front = new_block();
  Block& block = at(id);
  Block& head = at(front);
  head = block;
  head.size = size;
  head.next = id;
  if (head.prev != kNoBlock) at(head.prev).next = front;
  block.prev = front;
  block.address += static_cast<Address>(size);
  block.size -= size;
  return front;
}

BlockId CachingAllocator::cut_back(BlockId id, std::int64_t size) {
  const BlockId back = new_block();
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

// A neighbour that is out of every set becomes part of the block.
void CachingAllocator::absorb(BlockId id, BlockId neighbour) {
  Block& block = at(id);
  const Block& other = at(neighbour);
  if (block.prev == neighbour) {
    block.address = other.address;
    block.prev = other.prev;
    if (block.prev != kNoBlock) at(block.prev).next = id;
  } else {
    block.next = other.next;
    if (block.next != kNoBlock) at(block.next).prev = id;
  }
  block.size += other.size;
  drop_block(neighbour);
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

// Section 4: the smallest block that is large enough; ties go to the lowest address. In expandable mode
// the tail that can still grow is used last.
std::optional<FreeSet::Position> CachingAllocator::best_fit(const FreeSet& free, std::int64_t rounded) const {
  FreeSet::Position found = free.lower_bound(rounded);
  if (found == free.end()) return std::nullopt;
  if (settings_.expandable_segments && at(free.at(found).block).expandable()) {
    const auto reach = [this](BlockId id) {
      const Block& b = at(id);
      const bool grows = b.next != kNoBlock && !at(b.next).mapped;
      return b.size + (grows ? at(b.next).size : 0);
    };
    for (FreeSet::Position next = free.next(found); next != free.end() && at(free.at(found).block).expandable() &&
                                                    reach(free.at(next).block) < reach(free.at(found).block);
         next = free.next(next))
      found = next;
  }
  const std::int64_t size = free.at(found).size;
  if (rounded < settings_.max_split_size && size >= settings_.max_split_size) return std::nullopt;
  if (rounded >= settings_.max_split_size && size >= rounded + settings_.max_non_split_rounding) return std::nullopt;
  return found;
}

bool CachingAllocator::would_hit(const Request& request) const {
  const Place place = place_of(request);
  const Cache* cache = find_cache(place.cache, place.stream);
  return cache != nullptr && best_fit(cache->free, place.rounded).has_value();
}

BlockId CachingAllocator::find_free(const Place& place) {
  Cache& cache = cache_at(place.cache, place.stream);
  if (collects_garbage()) ++pools_[place.cache].searches;
  const auto found = best_fit(cache.free, place.rounded);
  if (!found) return kNoBlock;
  const BlockId block = cache.free.at(*found).block;
  cache.free.erase(*found);
  return block;
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

// Section 5: the front becomes the allocation, the rest stays cached.
void CachingAllocator::split(BlockId id, std::int64_t rounded) {
  const std::int64_t rest = at(id).size - rounded;
  const bool splits = at(id).small() || settings_.expandable_segments
                          ? rest >= kMinBlock
                          : rounded < settings_.max_split_size && rest > kSmallSize;
  if (splits) insert_free(cut_back(id, rest));
}

// Section 6. A request of a private pool may be part of a capture, where nothing is released before PyTorch 2.12.
std::optional<BlockId> CachingAllocator::allocate(const Request& request) {
  const Place place = place_of(request);
  BlockId id = find_free(place);
  if (id == kNoBlock) {
    if (collects_garbage()) collect_garbage();
    id = new_segment(place);
  }
  const bool rejected = settings_.throws_at_limit && over_limit(segment_bytes(place.rounded));
  if (id == kNoBlock && !rejected && release_oversize(place)) id = new_segment(place);
  if (id == kNoBlock && !rejected && (request.pool == 0 || settings_.torch >= Version{2, 12})) {
    release_all(settings_.torch >= Version{2, 8} ? 0 : request.pool);
    ++stats_.retries;
    id = new_segment(place);
  }
  if (id == kNoBlock) {
    ++stats_.ooms;
    return std::nullopt;
  }
  split(id, place.rounded);
  Block& block = at(id);
  block.allocated = true;
  block.requested = request.bytes;
  block.owner = request.owner;
  stats_.allocated += block.size;
  stats_.active += block.size;
  stats_.requested += request.bytes;
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  stats_.peak_requested = std::max(stats_.peak_requested, stats_.requested);
  return id;
}

void CachingAllocator::request_free(BlockId id) {
  Block& block = at(id);
  block.allocated = false;
  block.pending = true;
  block.pending_at = static_cast<std::uint32_t>(pending_.size());
  pending_.push_back(id);
  stats_.allocated -= block.size;
}

void CachingAllocator::complete_free(BlockId id) {
  Block& block = at(id);
  pending_[block.pending_at] = pending_.back();
  at(pending_.back()).pending_at = block.pending_at;
  pending_.pop_back();
  block.pending = false;
  make_free(id);
}

void CachingAllocator::make_free(BlockId id) {
  Block& block = at(id);
  stats_.active -= block.size;
  stats_.requested -= block.requested;
  block.requested = 0;
  for (const BlockId neighbour : {block.prev, block.next}) {
    if (neighbour == kNoBlock || !at(neighbour).idle() || !at(neighbour).mapped) continue;
    erase_free(neighbour);
    absorb(id, neighbour);
  }
  insert_free(id);
}

}  // namespace plimsoll::allocator
