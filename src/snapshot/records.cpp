// SPDX-License-Identifier: Apache-2.0
// One function per kind of record: its keys checked, its row entered. A key that a PyTorch version lacks stays
// absent; a key with a value of another kind is an error (facts snapshot-format.md 3 and 4).
#include <fmt/format.h>

#include "snapshot/builder.h"

namespace plimsoll::snapshot {

namespace {

constexpr std::size_t kMostStreams = 1U << 20;

}  // namespace

bool Builder::wrong(Key key, std::string_view wanted) {
  const Value* value = has(key) || role_ == Role::kTop ? &field(key) : nullptr;
  std::string found = value == nullptr ? "no such key" : std::string(kind_name(value->kind));
  if (value != nullptr && value->kind == Kind::kInt) found = fmt::format("{}", value->bits);
  if (value != nullptr && value->kind == Kind::kList)
    found = fmt::format("a list of {}", role_name(container(value->id).role));
  if (value != nullptr && value->kind == Kind::kString) {
    constexpr std::size_t kShown = 40;
    found = fmt::format("\"{}\"", std::string_view(snapshot_.strings[value->id]).substr(0, kShown));
  }
  problem_ = fmt::format("{}: {}: found {}; wanted {}", role_name(role_), key_name(key), found, wanted);
  return false;
}

bool Builder::read_bytes(Key key, std::int64_t& out) {
  if (!has(key) || field(key).kind != Kind::kInt || field(key).bits < 0 || field(key).bits > kMostBytes)
    return wrong(key, "a number of bytes");
  out = field(key).bits;
  return true;
}

bool Builder::read_bytes(Key key, std::optional<std::int64_t>& out) {
  if (!has(key)) return true;
  std::int64_t bytes = 0;
  if (!read_bytes(key, bytes)) return false;
  out = bytes;
  return true;
}

bool Builder::read_integer(Key key, std::int64_t& out) {
  if (!has(key) || field(key).kind != Kind::kInt) return wrong(key, "an integer");
  out = field(key).bits;
  return true;
}

bool Builder::read_address(Key key, std::uint64_t& out) {
  const bool is_good =
      has(key) && (field(key).kind == Kind::kUint || (field(key).kind == Kind::kInt && field(key).bits >= 0));
  if (!is_good) return wrong(key, "an address");
  out = field(key).unsigned_bits();
  return true;
}

bool Builder::read_bool(Key key, bool& out) {
  if (!has(key) || field(key).kind != Kind::kBool) return wrong(key, "a bool");
  out = field(key).bits != 0;
  return true;
}

bool Builder::read_bool(Key key, std::optional<bool>& out) {
  if (!has(key)) return true;
  bool value = false;
  if (!read_bool(key, value)) return false;
  out = value;
  return true;
}

bool Builder::read_string(Key key, std::uint32_t& out) {
  if (!has(key) || field(key).kind != Kind::kString) return wrong(key, "a string");
  out = field(key).id;
  return true;
}

bool Builder::read_stream(std::uint32_t& out) {
  if (!has(Key::kStream) || (field(Key::kStream).kind != Kind::kInt && field(Key::kStream).kind != Kind::kUint))
    return wrong(Key::kStream, "a stream's handle");
  out = stream_number(field(Key::kStream).unsigned_bits());
  return out != InternTable::kNone || wrong(Key::kStream, fmt::format("at most {} streams", kMostStreams));
}

// InternTable::kNone when there are too many.
std::uint32_t Builder::stream_number(std::uint64_t handle) {
  if (last_stream_ < snapshot_.streams.size() && snapshot_.streams[last_stream_] == handle) return last_stream_;
  const auto next = static_cast<std::uint32_t>(snapshot_.streams.size());
  if (next >= kMostStreams) return InternTable::kNone;
  const std::uint32_t found = stream_table_.find_or_enter(
      mix(3, handle), next, [&](std::uint32_t known) { return snapshot_.streams[known] == handle; });
  if (found == InternTable::kNone) return found;
  if (found == next) snapshot_.streams.push_back(handle);
  last_stream_ = found;
  return found;
}

bool Builder::read_pool(Key key, PoolId& out) {
  if (!has(key)) return true;
  if (field(key).kind != Kind::kTuple || field(key).id == 0) return wrong(key, "a pair of integers");
  out = tuples_[field(key).id];
  return true;
}

bool Builder::read_stack(std::uint32_t& out) {
  if (!has(Key::kFrames)) return true;
  const Value& value = field(Key::kFrames);
  if (value.kind != Kind::kList) return wrong(Key::kFrames, "a list of frames");
  const Container list = container(value.id);
  if (list.role != Role::kFrame && list.role != Role::kEmpty) return wrong(Key::kFrames, "a list of frames");
  out = list.row;
  return true;
}

bool Builder::read_range(Key key, Role role, Range& out) {
  const Value& value = field(key);
  if (value.kind != Kind::kList) return wrong(key, fmt::format("a list of {}", role_name(role)));
  const Container list = container(value.id);
  if (list.role == Role::kEmpty) return true;
  if (list.role != role) return wrong(key, fmt::format("a list of {}", role_name(role)));
  out = ranges_[list.row];
  return true;
}

bool Builder::add_event() {
  std::uint32_t name = 0;
  if (!read_string(Key::kAction, name)) return false;
  const Action action = action_of_[name];
  // Only these are sure to have no place, size or stream of their own in some version.
  const bool is_loose = action == Action::kUserDefined || action == Action::kAnnotate || action == Action::kOther;
  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::uint32_t stream = 0;
  std::int64_t time = kNoTime;
  std::uint32_t stack = kNoStack;
  const bool may_lack_address = is_loose || action == Action::kOom || action == Action::kSnapshot;
  if ((!may_lack_address || has(Key::kAddr)) && !read_address(Key::kAddr, address)) return false;
  if ((!is_loose || has(Key::kSize)) && !read_bytes(Key::kSize, size)) return false;
  if (is_loose && !has(Key::kStream)) {
    static constexpr Value kDefaultStream{Kind::kInt, 0, 0};
    fields_[static_cast<std::size_t>(Key::kStream)] = &kDefaultStream;
    keys_ |= bit(Key::kStream);
  }
  if (!read_stream(stream)) return false;
  if (has(Key::kTimeUs) && !read_integer(Key::kTimeUs, time)) return false;
  if (!read_stack(stack)) return false;

  Events& events = snapshot_.events;
  const auto event = static_cast<std::uint32_t>(events.count());
  constexpr std::uint64_t kNoted =
      bit(Key::kCompileContext) | bit(Key::kUserMetadata) | bit(Key::kPoolId) | bit(Key::kDeviceFree);
  constexpr std::uint64_t kOrigin = bit(Key::kForwardFrames) | bit(Key::kCategory) | bit(Key::kInternalMetadata);
  if ((keys_ & kOrigin) != 0 && !add_origin(event)) return false;
  if ((action == Action::kOther || (keys_ & kNoted) != 0)) {
    Note note;
    if (action == Action::kOther) note.action = name;
    if (!add_note(note, event)) return false;
  }
  events.action.push_back(action);
  events.address.push_back(address);
  events.size.push_back(size);
  events.stream.push_back(stream);
  events.time_us.push_back(time);
  events.stack.push_back(stack);
  return true;
}

// Enters the note unless it says only what every event says.
bool Builder::add_note(Note note, std::uint32_t event) {
  note.event = event;
  if (has(Key::kCompileContext)) {
    if (!read_string(Key::kCompileContext, note.compile_context)) return false;
    compile_context_.set(text(note.compile_context), note.compile_context);
    if (snapshot_.strings[note.compile_context] == "N/A") note.compile_context = kNoString;
  }
  if (has(Key::kUserMetadata)) {
    if (!read_string(Key::kUserMetadata, note.user_metadata)) return false;
    user_metadata_.set(text(note.user_metadata), note.user_metadata);
    if (snapshot_.strings[note.user_metadata].empty()) note.user_metadata = kNoString;
  }
  if (!read_pool(Key::kPoolId, note.pool) || !read_bytes(Key::kDeviceFree, note.device_free)) return false;
  const bool is_plain = note.action == kNoString && note.compile_context == kNoString &&
                        note.user_metadata == kNoString && note.pool == PoolId{} && !note.device_free;
  return is_plain || push_row(snapshot_.notes, note);
}

bool Builder::add_origin(std::uint32_t event) {
  Origin origin;
  origin.event = event;
  if (has(Key::kInternalMetadata) && !read_string(Key::kInternalMetadata, origin.internal_metadata)) return false;
  if (has(Key::kForwardFrames) && !read_range(Key::kForwardFrames, Role::kText, origin.forward_frames)) return false;
  const std::size_t numbered = categories_.size();
  if (has(Key::kCategory) && !read_category(origin)) return false;
  const bool is_plain = origin.internal_metadata == kNoString && origin.category == kNoString &&
                        categories_.size() == numbered && origin.forward_frames.count == 0;
  return is_plain || push_row(snapshot_.origins, origin);
}

// A name, or a number in the list at the top of the file, which may come later.
bool Builder::read_category(Origin& origin) {
  const Value& value = field(Key::kCategory);
  if (value.kind == Kind::kNone) return true;
  if (value.kind == Kind::kString) return read_string(Key::kCategory, origin.category);
  constexpr std::int64_t kMostCategories = 1024;
  if (value.kind != Kind::kInt || value.bits < 0 || value.bits >= kMostCategories)
    return wrong(Key::kCategory, "a category's name or number");
  return push_row(categories_, std::pair(static_cast<std::uint32_t>(snapshot_.origins.size()),
                                         static_cast<std::uint32_t>(value.bits)));
}

bool Builder::add_frame(std::uint32_t& row) {
  Frame frame;
  if (!read_string(Key::kFilename, frame.filename)) return false;
  if (has(Key::kName) && !read_string(Key::kName, frame.name)) return false;
  // A frame without a line has -1, which some writers give as unsigned.
  if (has(Key::kLine) && field(Key::kLine).kind == Kind::kUint)
    frame.line = field(Key::kLine).bits;
  else if (has(Key::kLine) && !read_integer(Key::kLine, frame.line))
    return false;
  const auto next = static_cast<std::uint32_t>(snapshot_.frames.size());
  const std::uint64_t hash = mix(mix(mix(4, frame.filename), frame.name), static_cast<std::uint64_t>(frame.line));
  row = frame_table_.find_or_enter(hash, next, [&](std::uint32_t known) { return snapshot_.frames[known] == frame; });
  if (row == InternTable::kNone) return wrong(Key::kFilename, "frames that do not all share one hash");
  if (row == next && next >= most_distinct_) return wrong(Key::kFilename, "fewer distinct frames in such a file");
  if (row == next) snapshot_.frames.push_back(frame);
  return true;
}

bool Builder::add_segment() {
  Segment segment;
  if (has(Key::kDevice) && !read_bytes(Key::kDevice, segment.device)) return false;
  if (!read_address(Key::kAddress, segment.address) || !read_bytes(Key::kTotalSize, segment.total_size)) return false;
  if (has(Key::kAllocatedSize) && !read_bytes(Key::kAllocatedSize, segment.allocated_size)) return false;
  if (has(Key::kActiveSize) && !read_bytes(Key::kActiveSize, segment.active_size)) return false;
  if (!read_bytes(Key::kRequestedSize, segment.requested_size)) return false;
  if (!has(Key::kStream)) return wrong(Key::kStream, "a stream's handle");
  if (!read_stream(segment.stream)) return false;
  std::uint32_t type = 0;
  if (!read_string(Key::kSegmentType, type)) return false;
  if (snapshot_.strings[type] != "small" && snapshot_.strings[type] != "large")
    return wrong(Key::kSegmentType, "\"small\" or \"large\"");
  segment.is_small = snapshot_.strings[type] == "small";
  if (has(Key::kIsExpandable) && !read_bool(Key::kIsExpandable, segment.is_expandable)) return false;
  if (!read_pool(Key::kSegmentPoolId, segment.pool) || !read_stack(segment.stack)) return false;
  if (!has(Key::kBlocks)) return wrong(Key::kBlocks, "a list of blocks");
  if (!read_range(Key::kBlocks, Role::kBlock, segment.blocks)) return false;
  return push_row(snapshot_.segments, segment);
}

bool Builder::add_block() {
  Block block;
  if (has(Key::kAddress) && !read_address(Key::kAddress, block.address)) return false;
  if (!read_bytes(Key::kSize, block.size) || !read_bytes(Key::kRequestedSize, block.requested_size)) return false;
  std::uint32_t state = 0;
  if (!read_string(Key::kState, state)) return false;
  if (snapshot_.strings[state] == "active_allocated")
    block.state = BlockState::kActiveAllocated;
  else if (snapshot_.strings[state] == "active_pending_free" || snapshot_.strings[state] == "active_awaiting_free")
    block.state = BlockState::kActivePendingFree;
  else if (snapshot_.strings[state] == "inactive")
    block.state = BlockState::kInactive;
  else
    return wrong(Key::kState, "\"active_allocated\", \"active_pending_free\" or \"inactive\"");
  if (!read_stack(block.stack)) return false;
  // Until about 2.0 the stack and the requested size stand in the newest entry of the block's history.
  if (has(Key::kHistory)) {
    Range history;
    if (!read_range(Key::kHistory, Role::kHistory, history)) return false;
    if (history.count != 0) {
      if (block.stack == kNoStack) block.stack = histories_[history.first].stack;
      if (!block.requested_size) block.requested_size = histories_[history.first].real_size;
    }
  }
  return push_row(snapshot_.blocks, block);
}

bool Builder::add_history() {
  History history;
  if (!read_bytes(Key::kRealSize, history.real_size) || !read_stack(history.stack)) return false;
  return push_row(histories_, history);
}

bool Builder::add_annotation() {
  Annotation annotation;
  std::uint32_t stage = 0;
  if (!read_string(Key::kStage, stage)) return false;
  if (snapshot_.strings[stage] != "START" && snapshot_.strings[stage] != "END")
    return wrong(Key::kStage, "\"START\" or \"END\"");
  annotation.is_start = snapshot_.strings[stage] == "START";
  if (!read_string(Key::kName, annotation.name)) return false;
  if (has(Key::kDevice) && !read_integer(Key::kDevice, annotation.device)) return false;
  if (has(Key::kTimeUs) && !read_integer(Key::kTimeUs, annotation.time_us)) return false;
  return push_row(snapshot_.annotations, annotation);
}

bool Builder::read_settings(SettingsRow& found) {
  AllocatorSettings& settings = found.settings;
  for (const Key key : {Key::kAllocConf, Key::kCudaAllocConf}) {
    std::uint32_t conf = 0;
    if (!has(key)) continue;
    if (!read_string(key, conf)) return false;
    if (!settings.conf || !snapshot_.strings[conf].empty()) settings.conf = std::string(snapshot_.strings[conf]);
  }
  if (has(Key::kMaxSplitSize)) {
    // Some version wrote the unlimited size as an unsigned maximum (facts snapshot-format.md 1).
    const Value& size = field(Key::kMaxSplitSize);
    std::int64_t limit = -1;
    if (size.kind != Kind::kUint && !read_integer(Key::kMaxSplitSize, limit)) return false;
    if (limit < -1) return wrong(Key::kMaxSplitSize, "a number of bytes, or -1 for no limit");
    settings.max_split_size = limit == INT64_MAX ? -1 : limit;
  }
  if (has(Key::kGarbageCollectionThreshold)) {
    const Value& threshold = field(Key::kGarbageCollectionThreshold);
    if (threshold.kind != Kind::kFloat && threshold.kind != Kind::kInt)
      return wrong(Key::kGarbageCollectionThreshold, "a number from 0 to 1");
    const double value = threshold.kind == Kind::kFloat ? threshold.real() : static_cast<double>(threshold.bits);
    if (!(value >= 0.0 && value <= 1.0)) return wrong(Key::kGarbageCollectionThreshold, "a number from 0 to 1");
    settings.garbage_collection_threshold = value;
  }
  if (!read_bool(Key::kExpandableSegments, settings.expandable_segments) ||
      !read_bool(Key::kReleaseLockOnCudamalloc, settings.release_lock_on_cudamalloc) ||
      !read_bool(Key::kGraphCaptureRecordStreamReuse, settings.graph_capture_record_stream_reuse))
    return false;
  if (has(Key::kRoundupPower2Divisions)) {
    const Value& value = field(Key::kRoundupPower2Divisions);
    const Container dict = value.kind == Kind::kDict ? container(value.id) : Container{};
    if (value.kind != Kind::kDict || (dict.role != Role::kDivisions && dict.role != Role::kEmpty))
      return wrong(Key::kRoundupPower2Divisions, "a dict from sizes to divisions");
    if (dict.role == Role::kDivisions) settings.roundup_power2_divisions = divisions_[dict.row];
  }
  if (has(Key::kTraceAllocMaxEntries)) found.max_entries = field(Key::kTraceAllocMaxEntries);
  if (has(Key::kTraceAllocOverflowed)) found.overflowed = field(Key::kTraceAllocOverflowed);
  return true;
}

}  // namespace plimsoll::snapshot
