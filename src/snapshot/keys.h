// SPDX-License-Identifier: Apache-2.0
// The keys of a snapshot's records, one bit each: a record's kind is told by the keys that it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace plimsoll::snapshot {

enum class Key : std::uint8_t {
  kAction,
  kAddr,
  kSize,
  kStream,
  kTimeUs,
  kCompileContext,
  kUserMetadata,
  kPoolId,
  kDeviceFree,
  kForwardFrames,
  kCategory,
  kInternalMetadata,
  kFrames,
  kName,
  kFilename,
  kLine,
  kDevice,
  kAddress,
  kTotalSize,
  kAllocatedSize,
  kActiveSize,
  kRequestedSize,
  kSegmentType,
  kSegmentPoolId,
  kIsExpandable,
  kBlocks,
  kState,
  kHistory,
  kRealSize,
  kStage,
  kSegments,
  kDeviceTraces,
  kAllocatorSettings,
  kExternalAnnotations,
  kTraceAllocMaxEntries,
  kTraceAllocOverflowed,
  kHostSegments,
  kHostTraces,
  kCategories,
  kCudaAllocConf,
  kAllocConf,
  kMaxSplitSize,
  kGarbageCollectionThreshold,
  kExpandableSegments,
  kReleaseLockOnCudamalloc,
  kGraphCaptureRecordStreamReuse,
  kRoundupPower2Divisions,
  kUnknown,
};

inline constexpr std::string_view kKeyNames[] = {
    "action",
    "addr",
    "size",
    "stream",
    "time_us",
    "compile_context",
    "user_metadata",
    "pool_id",
    "device_free",
    "forward_frames",
    "category",
    "internal_metadata",
    "frames",
    "name",
    "filename",
    "line",
    "device",
    "address",
    "total_size",
    "allocated_size",
    "active_size",
    "requested_size",
    "segment_type",
    "segment_pool_id",
    "is_expandable",
    "blocks",
    "state",
    "history",
    "real_size",
    "stage",
    "segments",
    "device_traces",
    "allocator_settings",
    "external_annotations",
    "trace_alloc_max_entries",
    "trace_alloc_overflowed",
    "host_segments",
    "host_traces",
    "categories",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "max_split_size",
    "garbage_collection_threshold",
    "expandable_segments",
    "release_lock_on_cudamalloc",
    "graph_capture_record_stream_reuse",
    "roundup_power2_divisions",
};
inline constexpr std::size_t kKeyCount = static_cast<std::size_t>(Key::kUnknown);
static_assert(std::size(kKeyNames) == kKeyCount && kKeyCount <= 64);

[[nodiscard]] constexpr std::uint64_t bit(Key key) { return std::uint64_t{1} << static_cast<unsigned>(key); }
[[nodiscard]] constexpr std::string_view key_name(Key key) { return kKeyNames[static_cast<std::size_t>(key)]; }

}  // namespace plimsoll::snapshot
