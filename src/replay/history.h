// SPDX-License-Identifier: Apache-2.0
// What a recorded program asked of the allocator, apart from what the allocator did about it: which objects were
// born and died in which order, of which size, on which stream and in which pool (facts pytorch-allocator.md 15).
// A history can be replayed under other settings; the calls to the driver are kept aside for the comparison.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/caching.h"
#include "base/result.h"
#include "snapshot/snapshot.h"

namespace plimsoll::replay {

inline constexpr std::uint32_t kNever = 0xffffffff;

// One allocation, from the event that made it to the event that gave it up. An object that was alive before the
// recording began has no birth, one that outlives it no death.
struct Object {
  std::uint32_t birth = kNever;
  std::uint32_t death = kNever;
};

enum class OpKind : std::uint8_t {
  kAlloc,
  kFree,          // given up and reusable at once
  kRequestFree,   // given up, but another stream still uses it
  kCompleteFree,  // now reusable
  kOom,           // a request that the recorded run could not serve
  kEmptyCache,    // the program called empty_cache() before this event
};

inline constexpr std::uint32_t kMostObjects = (1U << 29) - 1;

struct Op {
  Op(OpKind what, std::uint32_t which, std::uint32_t when) : kind(what), object(which & kMostObjects), event(when) {}

  OpKind kind : 3;
  std::uint32_t object : 29;
  std::uint32_t event;
};
static_assert(sizeof(Op) == 8);

// An object that was alive where the recording begins.
struct Initial {
  std::uint32_t object = 0;
  std::uint64_t address = 0;
  std::int64_t requested = 0;
  std::int64_t size = 0;  // of its block; 0 where no snapshot shows it
  std::uint32_t stream = 0;
  std::uint32_t stack = snapshot::kNoStack;
  bool pending = false;  // its free was requested, but not complete
};

struct History {
  const snapshot::Snapshot* snapshot = nullptr;
  std::int64_t device = 0;
  snapshot::Range events;  // of the device, in Snapshot::events
  std::vector<Object> objects;
  std::vector<Op> ops;
  std::vector<std::uint32_t> driver_events;  // segment_alloc, segment_free, segment_map, segment_unmap
  std::vector<Initial> initial;
  std::vector<allocator::SegmentView> start;  // segments where the recording begins; owners are objects
  std::vector<snapshot::PoolId> pools;        // 0 is the default pool
  std::vector<std::uint32_t> object_pools;    // by object, only where there are private pools
  std::size_t overwritten = 0;                // births at an address that was still alive: the record has holes
  bool has_final_segments = false;

  [[nodiscard]] bool starts_empty() const { return initial.empty() && start.empty(); }
  [[nodiscard]] std::int64_t bytes_of(std::uint32_t object) const;
  [[nodiscard]] std::uint32_t stream_of(std::uint32_t object) const;
  [[nodiscard]] std::uint32_t pool_of(std::uint32_t object) const {
    return object_pools.empty() ? 0 : object_pools[object];
  }
  // The stack that made the object, or kNoStack.
  [[nodiscard]] std::uint32_t stack_of(std::uint32_t object) const;
  // By object number; null for one that was born in the recording.
  [[nodiscard]] const Initial* initial_of(std::uint32_t object) const;
};

// The device with most events, or -1 when the snapshot has no history.
[[nodiscard]] std::int64_t busiest_device(const snapshot::Snapshot& snapshot);

// The history of one device. `snapshot` must outlive it.
[[nodiscard]] Result<History> read_history(const snapshot::Snapshot& snapshot, std::int64_t device);

}  // namespace plimsoll::replay
