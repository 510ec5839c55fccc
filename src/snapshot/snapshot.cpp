// SPDX-License-Identifier: Apache-2.0
#include "snapshot/snapshot.h"

#include <algorithm>
#include <unordered_set>

#include "snapshot/builder.h"

namespace plimsoll::snapshot {

namespace {

Result<Snapshot> read_window(Window& input, const ReadLimits& limits) {
  Builder builder(input.known_size());
  PLIMSOLL_TRY(root, read_pickle(input, builder, limits.pickle));
  return builder.finish(root);
}

Result<Snapshot> read_source(std::unique_ptr<Source> packed, const ReadLimits& limits) {
  PLIMSOLL_TRY(source, unpacked_source(std::move(packed), limits.inflate));
  Window input(*source);
  PLIMSOLL_TRY_STATUS(input.extend(input.begin()));
  if (input.is_at_end()) return bad_input("the file is empty; wanted a pickle");
  return read_window(input, limits);
}

Result<Snapshot> read_bytes(std::string_view bytes, const ReadLimits& limits) {
  if (is_gzip(bytes) || is_zstd(bytes) || bytes.starts_with("PK")) return read_source(memory_source(bytes), limits);
  if (bytes.empty()) return bad_input("the file is empty; wanted a pickle");
  Window input(bytes);
  return read_window(input, limits);
}

// The row of that event in a column sorted by event, or null.
template <class Row>
const Row* find_event(const std::vector<Row>& rows, std::uint32_t event) {
  const auto found = std::lower_bound(rows.begin(), rows.end(), event,
                                      [](const Row& row, std::uint32_t wanted) { return row.event < wanted; });
  return found != rows.end() && found->event == event ? &*found : nullptr;
}

Result<Snapshot> named(std::string_view name, Result<Snapshot> snapshot) {
  if (!snapshot) return tl::make_unexpected(std::move(snapshot.error()).with_context(std::string(name)));
  return snapshot;
}

}  // namespace

Result<Snapshot> read_snapshot(std::string_view name, std::string_view bytes, const ReadLimits& limits) {
  return named(name, read_bytes(bytes, limits));
}

Result<Snapshot> read_snapshot(std::string_view name, std::unique_ptr<Source> source, const ReadLimits& limits) {
  return named(name, read_source(std::move(source), limits));
}

Result<Snapshot> read_snapshot_file(const std::string& path, const ReadLimits& limits) {
  PLIMSOLL_TRY(source, file_source(path));
  return named(path == "-" ? "standard input" : path, read_source(std::move(source), limits));
}

std::string_view action_name(Action action) {
  constexpr std::string_view kNames[] = {"alloc",        "free_requested", "free_completed", "segment_alloc",
                                         "segment_free", "segment_map",    "segment_unmap",  "snapshot",
                                         "oom",          "user_defined",   "annotate",       "other"};
  return kNames[static_cast<std::size_t>(action)];
}

bool Snapshot::has_history() const {
  return std::any_of(devices.begin(), devices.end(), [](const Trace& trace) { return trace.events.count != 0; });
}

std::string_view Snapshot::text(std::uint32_t string) const {
  return string == kNoString ? std::string_view{} : std::string_view(strings[string]);
}

const Note* Snapshot::note_of(std::uint32_t event) const { return find_event(notes, event); }

const Origin* Snapshot::origin_of(std::uint32_t event) const { return find_event(origins, event); }

std::size_t frees_without_alloc(const Snapshot& snapshot, const Trace& trace) {
  const Events& events = snapshot.events;
  std::unordered_set<std::uint64_t> live;
  std::size_t count = 0;
  for (std::size_t i = trace.events.first; i < std::size_t{trace.events.first} + trace.events.count; ++i) {
    if (events.action[i] == Action::kAlloc) live.insert(events.address[i]);
    if (events.action[i] == Action::kFreeCompleted && live.erase(events.address[i]) == 0) ++count;
  }
  return count;
}

}  // namespace plimsoll::snapshot
