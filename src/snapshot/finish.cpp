// SPDX-License-Identifier: Apache-2.0
// The end of reading: the lists of the top record become traces, segments and settings, and what contradicts itself
// is refused.
#include <algorithm>

#include <fmt/format.h>

#include "snapshot/builder.h"

namespace plimsoll::snapshot {

namespace {

constexpr std::size_t kMostDevices = 1024;

}  // namespace

Status Builder::finish_traces(Key key, std::vector<Trace>& traces) {
  if ((top_keys_ & bit(key)) == 0) return {};
  const Value& value = top_fields_[static_cast<std::size_t>(key)];
  const auto wrong = [&](std::string_view found) {
    return bad_input(fmt::format("{}: found {}; wanted one list of trace events per device", key_name(key), found));
  };
  if (value.kind != Kind::kList) return wrong(kind_name(value.kind));
  const Container outer = container(value.id);
  if (outer.role == Role::kEmpty) return {};
  if (outer.role != Role::kList) return wrong(fmt::format("a list of {}", role_name(outer.role)));
  const Range inner = ranges_[outer.row];
  if (inner.count > kMostDevices) return wrong(fmt::format("{} lists", inner.count));
  for (std::uint32_t i = 0; i < inner.count; ++i) {
    const Container list = container(lists_[inner.first + i]);
    Trace trace;
    if (list.role == Role::kEvent)
      trace.events = ranges_[list.row];
    else if (list.role != Role::kEmpty)
      return wrong(fmt::format("a list of {} for device {}", role_name(list.role), i));
    traces.push_back(trace);
  }
  return {};
}

// One entry per device; a list that is shorter or longer than the traces says nothing of the others.
Status Builder::finish_trace_limits(const Value& value, Key key) {
  const Container list = value.kind == Kind::kList ? container(value.id) : Container{};
  if (value.kind != Kind::kList || (list.role != Role::kNumber && list.role != Role::kEmpty))
    return bad_input(fmt::format("{}: found {}; wanted one number per device", key_name(key), kind_name(value.kind)));
  if (list.role == Role::kEmpty) return {};
  const Range range = ranges_[list.row];
  for (std::size_t i = 0; i < std::min<std::size_t>(range.count, snapshot_.devices.size()); ++i) {
    const Value& number = numbers_[range.first + i];
    if (number.kind != Kind::kInt && number.kind != Kind::kBool && number.kind != Kind::kUint)
      return bad_input(fmt::format("{}: device {}: found {}; wanted an integer or a bool", key_name(key), i,
                                   kind_name(number.kind)));
    if (key == Key::kTraceAllocOverflowed)
      snapshot_.devices[i].overflowed = number.bits != 0;
    else if (number.kind == Kind::kInt)  // an unsigned maximum is no limit
      snapshot_.devices[i].max_entries = number.bits;
  }
  return {};
}

Status Builder::finish_top() {
  const auto records = [this](Key key, Role role, Range& out) -> Status {
    if ((top_keys_ & bit(key)) == 0) return {};
    fields_[static_cast<std::size_t>(key)] = &top_fields_[static_cast<std::size_t>(key)];
    role_ = Role::kTop;
    return read_range(key, role, out) ? Status{} : problem();
  };
  Range annotations;
  PLIMSOLL_TRY_STATUS(records(Key::kSegments, Role::kSegment, snapshot_.device_segments));
  PLIMSOLL_TRY_STATUS(records(Key::kHostSegments, Role::kSegment, snapshot_.host_segments));
  PLIMSOLL_TRY_STATUS(records(Key::kExternalAnnotations, Role::kAnnotation, annotations));
  PLIMSOLL_TRY_STATUS(finish_traces(Key::kDeviceTraces, snapshot_.devices));
  PLIMSOLL_TRY_STATUS(finish_traces(Key::kHostTraces, snapshot_.host_devices));
  if ((top_keys_ & bit(Key::kAllocatorSettings)) != 0) {
    const Value& value = top_fields_[static_cast<std::size_t>(Key::kAllocatorSettings)];
    const Container dict = value.kind == Kind::kDict ? container(value.id) : Container{};
    if (value.kind != Kind::kDict ||
        (dict.role != Role::kSettings && dict.role != Role::kEmpty && dict.role != Role::kOther))
      return bad_input(fmt::format("allocator_settings: found {}; wanted a dict of settings", kind_name(value.kind)));
    snapshot_.settings = AllocatorSettings{};
    if (dict.role == Role::kSettings) {
      const SettingsRow& row = settings_[dict.row];
      if (!row.problem.empty()) return bad_input(row.problem);
      snapshot_.settings = row.settings;
      if (row.max_entries) PLIMSOLL_TRY_STATUS(finish_trace_limits(*row.max_entries, Key::kTraceAllocMaxEntries));
      if (row.overflowed) PLIMSOLL_TRY_STATUS(finish_trace_limits(*row.overflowed, Key::kTraceAllocOverflowed));
    }
  }
  for (const Key key : {Key::kTraceAllocMaxEntries, Key::kTraceAllocOverflowed})
    if ((top_keys_ & bit(key)) != 0)
      PLIMSOLL_TRY_STATUS(finish_trace_limits(top_fields_[static_cast<std::size_t>(key)], key));
  return {};
}

// The profiler's files number the categories of an event; the names stand at the top.
Status Builder::finish_categories() {
  if (categories_.empty()) return {};
  Range names;
  if ((top_keys_ & bit(Key::kCategories)) != 0) {
    const Value& value = top_fields_[static_cast<std::size_t>(Key::kCategories)];
    const Container list = value.kind == Kind::kList ? container(value.id) : Container{};
    if (list.role != Role::kText)
      return bad_input(fmt::format("categories: found {}; wanted a list of names", kind_name(value.kind)));
    names = ranges_[list.row];
  }
  for (const auto& [origin, category] : categories_) {
    if (category >= names.count)
      return bad_input(fmt::format("trace events: category: found {}; wanted one of the {} categories of the file",
                                   category, names.count));
    snapshot_.origins[origin].category = snapshot_.forward_lines[names.first + category];
  }
  return {};
}

// Blocks of PyTorch 2.0 have no address: they follow each other from the segment's (facts snapshot-format.md 3).
Status Builder::finish_blocks() {
  for (std::size_t i = 0; i < snapshot_.segments.size(); ++i) {
    const Segment& segment = snapshot_.segments[i];
    std::uint64_t at = segment.address;
    std::int64_t filled = 0;
    for (std::uint32_t b = 0; b < segment.blocks.count; ++b) {
      Block& block = snapshot_.blocks[segment.blocks.first + b];
      if (block.address == 0) block.address = at;
      if (block.address != at || block.size > segment.total_size - filled)
        return bad_input(
            fmt::format("segment {} at {:#x}: block {} of {} bytes lies at {:#x}; wanted it at {:#x}, within {} bytes",
                        i, segment.address, b, block.size, block.address, at, segment.total_size));
      filled += block.size;
      at += static_cast<std::uint64_t>(block.size);
    }
    if (filled != segment.total_size)
      return bad_input(fmt::format("segment {} at {:#x}: its blocks hold {} of {} bytes; wanted all", i,
                                   segment.address, filled, segment.total_size));
  }
  return {};
}

namespace {

// Sums of sizes are taken all over: here it is seen to that none can overflow. A block lies in its segment.
Status check_totals(const Snapshot& snapshot) {
  constexpr std::int64_t kMostTotal = std::int64_t{1} << 62;
  const Error damaged{Code::kBadInput, "its sizes sum to more than 2^62 bytes; the file is damaged", {}, {}};
  std::int64_t total = 0;
  for (const std::int64_t size : snapshot.events.size)
    if ((total += size) > kMostTotal) return tl::make_unexpected(damaged);
  for (const Segment& segment : snapshot.segments)
    for (const std::int64_t size :
         {segment.total_size, segment.allocated_size, segment.active_size, segment.requested_size.value_or(0)})
      if ((total += size) > kMostTotal) return tl::make_unexpected(damaged);
  return {};
}

}  // namespace

Result<Snapshot> Builder::finish(const Value& root) {
  const Container shape = container(root.id);
  if (root.kind == Kind::kDict && shape.role == Role::kTop && root.id == top_) {
    PLIMSOLL_TRY_STATUS(finish_top());
  } else if (root.kind == Kind::kList && (shape.role == Role::kSegment || shape.role == Role::kEmpty)) {
    if (shape.role == Role::kSegment) snapshot_.device_segments = ranges_[shape.row];
  } else {
    return bad_input(
        fmt::format("the pickle holds {}; wanted a dict with segments and device_traces, or a list of segments",
                    kind_name(root.kind)),
        "make the file with torch.cuda.memory._dump_snapshot");
  }
  PLIMSOLL_TRY_STATUS(finish_categories());
  PLIMSOLL_TRY_STATUS(finish_blocks());
  PLIMSOLL_TRY_STATUS(check_totals(snapshot_));
  return std::move(snapshot_);
}

}  // namespace plimsoll::snapshot
