// SPDX-License-Identifier: Apache-2.0
// A PyTorch memory snapshot as columns: the events of every device, the segments and blocks at the end, the
// allocator's settings, and stacks, frames and strings as tables of distinct entries (facts snapshot-format.md).
// Invariant of a snapshot that was read: every number in it points into its table, and the blocks of a segment
// tile it exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "snapshot/pickle.h"
#include "snapshot/source.h"

namespace plimsoll::snapshot {

enum class Action : std::uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kSnapshot,
  kOom,
  kUserDefined,
  kAnnotate,
  kOther,  // a name that this reader does not know; the event's note has it
};

inline constexpr std::uint32_t kNoStack = 0xffffffff;  // no context was recorded; an empty stack has a number
inline constexpr std::uint32_t kNoString = 0xffffffff;
inline constexpr std::int64_t kNoTime = -1;

struct Range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct PoolId {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  bool operator==(const PoolId&) const = default;
};

// All events of all devices, one after the other; a Trace says which belong to a device.
struct Events {
  std::vector<Action> action;
  std::vector<std::uint64_t> address;  // 0 where the writer gives none (oom)
  std::vector<std::int64_t> size;      // bytes; what they count depends on the action (facts snapshot-format.md 4)
  std::vector<std::uint32_t> stream;   // number in Snapshot::streams
  std::vector<std::int64_t> time_us;   // Unix time, kNoTime before PyTorch 2.2
  std::vector<std::uint32_t> stack;    // number in Snapshot::stacks, or kNoStack

  [[nodiscard]] std::size_t count() const { return action.size(); }
};

// What only few events carry, in order of the event. An event without a note has the default pool, the compile
// context "N/A" or none, and no user metadata.
struct Note {
  std::uint32_t event = 0;
  std::uint32_t action = kNoString;  // the name of a kOther
  std::uint32_t compile_context = kNoString;
  std::uint32_t user_metadata = kNoString;
  PoolId pool;
  std::optional<std::int64_t> device_free;  // bytes, of an oom
};

// Where an allocation comes from, as only the newest files and those made from the profiler say, in order of the event.
struct Origin {
  std::uint32_t event = 0;
  std::uint32_t category = kNoString;           // files made from the profiler
  std::uint32_t internal_metadata = kNoString;  // PyTorch 2.14+
  Range forward_frames;                         // in Snapshot::forward_lines: the forward pass of a backward event
};

struct Trace {
  Range events;
  std::optional<bool> overflowed;           // PyTorch 2.12+: older entries were lost
  std::optional<std::int64_t> max_entries;  // PyTorch 2.12+
};

struct Frame {
  std::uint32_t name = kNoString;
  std::uint32_t filename = kNoString;
  std::int64_t line = 0;

  bool operator==(const Frame&) const = default;
};

enum class BlockState : std::uint8_t { kActiveAllocated, kActivePendingFree, kInactive };

struct Block {
  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::optional<std::int64_t> requested_size;  // stale in an inactive block: never sum it
  std::uint32_t stack = kNoStack;
  BlockState state = BlockState::kInactive;
};

struct Segment {
  std::int64_t device = 0;
  std::uint64_t address = 0;
  std::int64_t total_size = 0;
  std::int64_t allocated_size = 0;
  std::int64_t active_size = 0;
  std::optional<std::int64_t> requested_size;
  std::uint32_t stream = 0;  // number in Snapshot::streams
  bool is_small = false;     // of the pool of small blocks
  bool is_expandable = false;
  PoolId pool;
  std::uint32_t stack = kNoStack;
  Range blocks;
};

struct Annotation {
  bool is_start = false;
  std::uint32_t name = kNoString;
  std::int64_t device = 0;
  std::int64_t time_us = kNoTime;
};

// What the file says; an absent key stays absent.
struct AllocatorSettings {
  std::optional<std::string> conf;             // the string as the user gave it
  std::optional<std::int64_t> max_split_size;  // -1 is unlimited
  std::optional<double> garbage_collection_threshold;
  std::optional<bool> expandable_segments;
  std::optional<bool> release_lock_on_cudamalloc;
  std::optional<bool> graph_capture_record_stream_reuse;
  std::vector<std::pair<std::int64_t, std::int64_t>> roundup_power2_divisions;  // MiB -> divisions, as in the file
};

struct Snapshot {
  Events events;
  std::vector<Note> notes;
  std::vector<Origin> origins;
  std::vector<Trace> devices;       // by device number; empty without a history
  std::vector<Trace> host_devices;  // pinned memory, PyTorch 2.14+
  std::vector<Segment> segments;
  Range device_segments;
  Range host_segments;
  std::vector<Block> blocks;
  std::optional<AllocatorSettings> settings;
  std::vector<Annotation> annotations;

  std::vector<std::uint64_t> streams;       // raw handles
  std::vector<Range> stacks;                // into stack_frames, innermost first
  std::vector<std::uint32_t> stack_frames;  // numbers in frames
  std::vector<Frame> frames;
  std::vector<std::uint32_t> forward_lines;  // strings, a line of a stack each
  std::vector<std::string> strings;

  [[nodiscard]] bool has_history() const;
  // "" for kNoString.
  [[nodiscard]] std::string_view text(std::uint32_t string) const;
  // The note or the origin of an event, or null.
  [[nodiscard]] const Note* note_of(std::uint32_t event) const;
  [[nodiscard]] const Origin* origin_of(std::uint32_t event) const;
};

struct ReadLimits {
  PickleLimits pickle;
  InflateLimits inflate;
};

// Reads a snapshot, plain, gzip or zstd. `name` is the file's, for messages.
[[nodiscard]] Result<Snapshot> read_snapshot(std::string_view name, std::string_view bytes,
                                             const ReadLimits& limits = {});
[[nodiscard]] Result<Snapshot> read_snapshot(std::string_view name, std::unique_ptr<Source> source,
                                             const ReadLimits& limits = {});
// The same from a file, or from standard input for "-"; the file is never held as a whole.
[[nodiscard]] Result<Snapshot> read_snapshot_file(const std::string& path, const ReadLimits& limits = {});

[[nodiscard]] std::string_view action_name(Action action);

// Frees of a device's trace whose allocation is not in it: more than none says that the trace wrapped or that
// recording began late. Before PyTorch 2.12 nothing else does (facts snapshot-format.md 6).
[[nodiscard]] std::size_t frees_without_alloc(const Snapshot& snapshot, const Trace& trace);

}  // namespace plimsoll::snapshot
