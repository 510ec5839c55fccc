// SPDX-License-Identifier: Apache-2.0
// PyTorch's caching allocator as a pure policy over a driver (facts pytorch-allocator.md 3-10): rounding, small
// and large pools per stream, private pools, best fit, splitting, merging, expandable segments, garbage collection,
// release and retry. No globals, no clock.
//
// segment  memory from one driver call (or one expandable range), cut into
// block    a piece that is allocated, or freed and waiting for another stream, or free and cached, or (expandable)
//          not mapped to memory yet.
// reserved = bytes of all segments held from the driver; allocated = bytes of allocated blocks, which
// may exceed what was asked for (a rest of up to 1 MiB in the large pool is not split off); active = allocated and
// waiting.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "allocator/driver.h"
#include "allocator/free_set.h"
#include "allocator/settings.h"

namespace plimsoll::allocator {

struct Stats {
  std::int64_t allocated = 0;
  std::int64_t pending = 0;    // freed, but another stream still uses it
  std::int64_t requested = 0;  // of active blocks
  std::int64_t reserved = 0;
  std::int64_t peak_allocated = 0;
  std::int64_t peak_requested = 0;
  std::int64_t peak_reserved = 0;
  std::int64_t device_allocs = 0;  // cudaMalloc or one map call
  std::int64_t device_frees = 0;   // cudaFree or one unmap call
  std::int64_t retries = 0;        // releases of the whole cache to serve a request
  std::int64_t collected = 0;      // segments that garbage collection returned
  std::int64_t ooms = 0;

  [[nodiscard]] std::int64_t active() const { return allocated + pending; }
  [[nodiscard]] std::int64_t driver_calls() const { return device_allocs + device_frees; }
};

// The stream is a number that add_stream() gave; pool 0 is the default one, others are private pools.
struct Request {
  std::int64_t bytes = 0;
  std::uint32_t stream = 0;
  std::uint32_t pool = 0;
  std::uint32_t owner = 0;  // the caller's own mark, kept with the block
};

enum class BlockState : std::uint8_t { kFree, kAllocated, kPending };

struct BlockView {
  Address address = 0;
  std::int64_t size = 0;
  std::int64_t requested = 0;  // 0 in a free block
  BlockState state = BlockState::kFree;
  std::uint32_t owner = 0;
};

// A cudaMalloc segment, or one contiguous mapped run of an expandable range. The blocks tile it.
struct SegmentView {
  Address address = 0;
  std::int64_t size = 0;
  std::uint32_t stream = 0;
  std::uint32_t pool = 0;
  bool small = false;
  bool expandable = false;
  std::vector<BlockView> blocks;
};

class CachingAllocator {
 public:
  using BlockId = allocator::BlockId;

  CachingAllocator(const Settings& settings, Driver& driver);

  // The handle decides the order in which caches are given back; stream 0 has handle 0 and always exists.
  std::uint32_t add_stream(std::uint64_t handle);

  // The block that serves the request, or nothing when memory runs out.
  [[nodiscard, gnu::always_inline]] std::optional<BlockId> allocate(const Request& request) {
    const Place place = place_of(request);
    BlockId id = find_free(place);
    if (id == kNoBlock) {
      id = ask_driver(place, request.pool);
      if (id == kNoBlock) return std::nullopt;
    }
    Block& block = at(id);
    block.allocated = true;
    block.requested = request.bytes;
    block.owner = request.owner;
    stats_.allocated += block.size;
    stats_.requested += request.bytes;
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
    stats_.peak_requested = std::max(stats_.peak_requested, stats_.requested);
    return id;
  }
  [[nodiscard]] std::optional<BlockId> allocate(std::int64_t bytes) { return allocate(Request{bytes}); }
  void free(BlockId block) {
    Block& freed = at(block);
    freed.allocated = false;
    stats_.allocated -= freed.size;
    make_free(block);
  }
  // The two halves of a free when another stream still uses the block: it is no longer allocated, but not
  // reusable before complete_free().
  void request_free(BlockId block);
  void complete_free(BlockId block);
  // Returns every unsplit cached segment to the driver, having completed all pending frees: empty_cache().
  void release_cached();
  // Owners of the blocks whose pending free a release completed since the last call; their ids are no longer valid.
  [[nodiscard]] std::vector<std::uint32_t> take_completed() { return std::move(completed_); }
  [[nodiscard]] bool has_completed() const { return !completed_.empty(); }

  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] std::int64_t block_size(BlockId block) const { return blocks_[index(block)].size; }
  [[nodiscard]] Address address(BlockId block) const { return blocks_[index(block)].address; }
  void reset_peaks() {
    stats_.peak_allocated = stats_.allocated;
    stats_.peak_requested = stats_.requested;
    stats_.peak_reserved = stats_.reserved;
  }
  // Whether a request would be served from the cache, without asking the driver.
  [[nodiscard]] bool would_hit(const Request& request) const;
  // Bytes that the driver is asked for when the cache does not serve the request.
  [[nodiscard]] std::int64_t segment_bytes(std::int64_t bytes) const;
  // Largest cached block that could serve a request without the driver.
  [[nodiscard]] std::int64_t largest_free() const;
  [[nodiscard]] std::vector<SegmentView> segments() const;

  // Takes over segments as they stood in another allocator, e.g. where a recording begins. Only for an allocator
  // that has served nothing. The blocks must tile their segment; returns each block's id, segment by segment.
  std::vector<BlockId> restore(const std::vector<SegmentView>& segments);
  // A range that was reserved, but never mapped, can be told where it lies: recordings show a range's address
  // only when it is first used. False when the pool has no such range for this stream.
  bool anchor_range(std::uint32_t stream, std::uint32_t pool, bool small, Address address);
  // Whether the address lies in an expandable range that has its place.
  [[nodiscard]] bool in_range(Address address) const;

 private:
  struct Cache {  // of one stream in one pool
    FreeSet free;
    std::vector<BlockId> unmapped;  // sorted by address
  };
  struct Pool {
    std::vector<Cache> by_stream;
    std::size_t streams = 0;    // its size, which is asked for at every request
    std::int64_t searches = 0;  // counted while garbage collection is in force
  };
  struct Range {
    Address base = 0;
    std::int64_t size = 0;
    bool anchored = true;  // false: reserved, but where is not known yet
    bool dropped = false;
  };
  struct Place {  // where a request belongs
    std::int64_t rounded;
    std::uint32_t stream;
    std::uint32_t cache;
  };

  static std::size_t index(BlockId block) { return static_cast<std::size_t>(block); }
  Block& at(BlockId block) { return blocks_[index(block)]; }
  [[nodiscard]] const Block& at(BlockId block) const { return blocks_[index(block)]; }
  Cache& cache_of(const Block& block) { return pools_[block.cache].by_stream[block.stream]; }  // made before the block
  Cache& cache_at(std::uint32_t pool, std::uint32_t stream) {
    if (pool < pools_.size() && stream < pools_[pool].streams) return pools_[pool].by_stream[stream];
    return new_cache(pool, stream);
  }
  Cache& new_cache(std::uint32_t pool, std::uint32_t stream);
  [[nodiscard]] const Cache* find_cache(std::uint32_t pool, std::uint32_t stream) const;
  [[nodiscard]] std::int64_t granule(const Block& block) const {
    return block.small() ? kSmallSegment : settings_.large_segment;
  }
  [[nodiscard]] std::int64_t rounded(std::int64_t bytes) const {
    if (rounds_to_units_ && bytes >= kMinBlock && bytes < kUnlimited / 2)
      return (bytes + kMinBlock - 1) / kMinBlock * kMinBlock;
    return round_size(settings_, bytes);
  }
  [[nodiscard]] Place place_of(const Request& request) const {
    const std::int64_t size = rounded(request.bytes);
    return {size, request.stream, request.pool * 2 + (size <= kSmallSize ? 0U : 1U)};
  }
  BlockId spare_block() {  // with what it last held
    if (!spare_.empty()) {
      const BlockId id = spare_.back();
      spare_.pop_back();
      return id;
    }
    blocks_.emplace_back();
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  BlockId new_block();
  void drop_block(BlockId block) {
    at(block).size = 0;
    spare_.push_back(block);
  }
  // A block that nobody uses, with the free ones beside it, into the cache.
  void make_free(BlockId id) {
    const Block& block = at(id);
    stats_.requested -= block.requested;
    BlockId larger = is_cached(block.prev) ? block.prev : kNoBlock;
    BlockId other = is_cached(block.next) ? block.next : kNoBlock;
    if (larger == kNoBlock && other == kNoBlock) return insert_free(id);
    if (larger == kNoBlock || (other != kNoBlock && at(other).size > at(larger).size)) std::swap(larger, other);
    if (other != kNoBlock) {
      erase_free(other);
      absorb(id, other);
    }
    join(larger, id);
  }
  // Whether there is such a block, and it is free and in a set.
  [[nodiscard]] bool is_cached(BlockId block) const {
    return block != kNoBlock && at(block).idle() && at(block).mapped;
  }
  void insert_free(BlockId block) {
    if (collects_garbage_) note_use(block);
    cache_of(at(block)).free.insert(blocks_, block);
  }
  void note_use(BlockId block);
  void erase_free(BlockId block) { cache_of(at(block)).free.erase(blocks_, block); }
  void add_unmapped(BlockId block);
  void remove_unmapped(BlockId block);
  // The front of a block as a block of its own, before it.
  BlockId cut_front(BlockId id, std::int64_t size) {
    const BlockId front = spare_block();
    Block& block = at(id);
    Block& head = at(front);
    head.address = block.address;
    head.size = size;
    head.prev = block.prev;
    head.next = id;
    head.stream = block.stream;
    head.cache = block.cache;
    head.range = block.range;
    head.allocated = false;
    head.pending = false;
    head.mapped = block.mapped;
    if (head.prev != kNoBlock) at(head.prev).next = front;
    block.prev = front;
    block.address += static_cast<Address>(size);
    block.size -= size;
    return front;
  }
  BlockId cut_back(BlockId block, std::int64_t size);
  // A neighbour that is out of every set becomes part of the block.
  void absorb(BlockId id, BlockId neighbour) {
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
  // A free block takes over a neighbour that is in no set. It leaves its own set only where it must.
  void join(BlockId id, BlockId neighbour) {
    FreeSet& free = cache_of(at(id)).free;
    const bool stays = free.keeps_place(blocks_, id, at(id).size + at(neighbour).size);
    if (!stays) free.erase(blocks_, id);
    absorb(id, neighbour);
    if (!stays) free.insert(blocks_, id);
    if (collects_garbage_) note_use(id);
  }
  // Whether more of its range can be mapped behind the block.
  [[nodiscard]] bool grows(const Block& block) const { return block.next != kNoBlock && !at(block.next).mapped; }
  void took(std::int64_t bytes);
  void gave(std::int64_t bytes);

  // Section 4: the smallest block that is large enough; ties go to the lowest address.
  [[nodiscard]] BlockId best_fit(const FreeSet& free, std::int64_t rounded) const {
    const BlockId found = free.best_fit(blocks_, rounded);
    if (found == kNoBlock) return found;
    const bool is_tail = settings_.expandable_segments && grows(at(found));
    return is_tail || limits_splits_ ? best_fit_beside(free, found, rounded) : found;
  }
  [[nodiscard]] BlockId best_fit_beside(const FreeSet& free, BlockId found, std::int64_t rounded) const;
  // The block that best fit finds, cut to the request. Inside allocate(): walks are half as long as without.
  [[gnu::always_inline]] BlockId find_free(const Place& place) {
    Cache& cache = cache_at(place.cache, place.stream);
    if (collects_garbage_) ++pools_[place.cache].searches;
    const BlockId found = best_fit(cache.free, place.rounded);
    if (found == kNoBlock) return kNoBlock;
    if (!splits(at(found), place.rounded)) {
      cache.free.erase(blocks_, found);
      return found;
    }
    const bool rest_stays = cache.free.keeps_place(blocks_, found, at(found).size - place.rounded);
    if (!rest_stays) cache.free.erase(blocks_, found);
    const BlockId front = cut_front(found, place.rounded);
    if (!rest_stays) cache.free.insert(blocks_, found);
    if (collects_garbage_) note_use(found);
    return front;
  }
  BlockId new_segment(const Place& place);
  BlockId ask_driver(const Place& place, std::uint32_t pool);
  // Section 5: whether the front becomes the allocation and the rest stays cached.
  [[nodiscard]] bool splits(const Block& block, std::int64_t rounded) const {
    const std::int64_t rest = block.size - rounded;
    if (block.small() || settings_.expandable_segments) return rest >= kMinBlock;
    return rounded < settings_.max_split_size && rest > kSmallSize;
  }
  BlockId cut(BlockId block, std::int64_t rounded);
  [[nodiscard]] bool over_limit(std::int64_t more) const;
  [[nodiscard]] std::int64_t allowed() const;

  BlockId grow_expandable(const Place& place);
  BlockId new_range(const Place& place);
  bool map_front(BlockId unmapped, std::int64_t bytes);
  void unmap(BlockId block);

  BlockId append_unmapped(BlockId last, std::int64_t size);
  BlockId append_block(const SegmentView& segment, const BlockView& view, std::int32_t range, BlockId last);

  void collect_garbage();
  bool release_oversize(const Place& place);
  void release_pool(std::uint32_t pool);
  void release_all(std::uint32_t private_pool);
  void release_segment(Cache& cache, BlockId block);
  void complete_pending();

  Settings settings_;
  bool collects_garbage_;
  bool rounds_to_units_;  // roundup_power2_divisions is not set
  bool limits_splits_;    // max_split_size is set
  Driver& driver_;
  Blocks blocks_;
  std::vector<BlockId> spare_;
  std::vector<std::int64_t> last_use_;  // of each block, in its pool's searches, while garbage collection is in force
  std::vector<Range> ranges_;
  std::vector<std::uint64_t> streams_;       // handles
  std::vector<std::uint32_t> stream_order_;  // numbers in streams_ by ascending handle
  std::vector<Pool> pools_;
  std::vector<BlockId> pending_;
  std::vector<std::uint32_t> completed_;
  Stats stats_;
};

}  // namespace plimsoll::allocator
