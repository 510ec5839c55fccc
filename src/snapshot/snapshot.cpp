// SPDX-License-Identifier: Apache-2.0
#include "snapshot/snapshot.h"

#include <algorithm>
#include <unordered_set>

#include "snapshot/builder.h"

namespace plimsoll::snapshot {

namespace {

Result<Snapshot> read_plain(std::string_view bytes, const ReadLimits& limits) {
  if (bytes.empty()) return bad_input("the file is empty; wanted a pickle");
  if (bytes.starts_with("\x28\xb5\x2f\xfd"))
    return bad_input("the file is compressed with zstd; wanted a pickle, plain or gzip", "unpack it: zstd -d FILE");
  if (bytes.starts_with("PK\x03\x04"))
    return bad_input("the file is a zip archive, as torch.save writes; wanted a pickle",
                     "make the file with torch.cuda.memory._dump_snapshot");
  Builder builder(bytes.size());
  PLIMSOLL_TRY(root, read_pickle(bytes, builder, limits.pickle));
  return builder.finish(root);
}

Result<Snapshot> read_packed(std::string_view bytes, const ReadLimits& limits) {
  if (!is_gzip(bytes)) return read_plain(bytes, limits);
  PLIMSOLL_TRY(plain, inflate_gzip(bytes, limits.inflate));
  return read_plain(plain, limits);
}

}  // namespace

Result<Snapshot> read_snapshot(std::string_view name, std::string_view bytes, const ReadLimits& limits) {
  auto snapshot = read_packed(bytes, limits);
  if (!snapshot) return tl::make_unexpected(std::move(snapshot.error()).with_context(std::string(name)));
  return snapshot;
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

const Note* Snapshot::note_of(std::uint32_t event) const {
  const auto found = std::lower_bound(notes.begin(), notes.end(), event,
                                      [](const Note& note, std::uint32_t wanted) { return note.event < wanted; });
  return found != notes.end() && found->event == event ? &*found : nullptr;
}

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
