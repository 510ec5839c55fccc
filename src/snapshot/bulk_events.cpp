// SPDX-License-Identifier: Apache-2.0
// Events read whole. A history is millions of dicts whose keys and most values are the same few bytes, so the shape
// of an event is learnt once and the following ones are matched against it. An event that differs in any way (a
// FRAME in the middle, an OOM, a new string, a value of another kind) is left to the stack machine, which alone
// decides what is an error.
#include <algorithm>
#include <cstring>

#include "snapshot/builder.h"
#include "snapshot/opcodes.h"

namespace plimsoll::snapshot {

namespace {

// The longest record without its frames: 12 keys of 5 bytes, 2 strings of 64, 10 integers of 10, memo opcodes.
constexpr std::size_t kLongestRecord = 512;
constexpr std::size_t kMostFrames = 256;
constexpr std::size_t kContainersPerEvent = 2;

constexpr std::uint64_t kBulkKeys = bit(Key::kAction) | bit(Key::kAddr) | bit(Key::kSize) | bit(Key::kStream) |
                                    bit(Key::kTimeUs) | bit(Key::kCompileContext) | bit(Key::kUserMetadata) |
                                    bit(Key::kPoolId) | bit(Key::kFrames);
constexpr std::uint64_t kNeededKeys = bit(Key::kAction) | bit(Key::kAddr) | bit(Key::kSize) | bit(Key::kStream);

constexpr char code(Opcode opcode) { return static_cast<char>(opcode); }

template <class T>
T load(const char* at) {
  T value{};
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Header bytes, and by how much to shift a word left and back for each opcode that holds an integer.
struct IntegerForm {
  std::uint8_t header = 0;  // 0: no integer
  std::uint8_t length = 0;  // 0: in the second byte
  bool is_signed = false;
};

constexpr std::array<IntegerForm, 256> kIntegerForms = [] {
  std::array<IntegerForm, 256> forms{};
  forms[static_cast<std::uint8_t>(Opcode::kBinInt1)] = {1, 1, false};
  forms[static_cast<std::uint8_t>(Opcode::kBinInt2)] = {1, 2, false};
  forms[static_cast<std::uint8_t>(Opcode::kBinInt)] = {1, 4, true};
  forms[static_cast<std::uint8_t>(Opcode::kLong1)] = {2, 0, true};
  return forms;
}();

// Any integer of 1 to 8 bytes, with no branch on its length: sizes vary from event to event.
bool decode_integer(const char*& at, std::int64_t& out) {
  const IntegerForm form = kIntegerForms[static_cast<std::uint8_t>(*at)];
  const std::uint32_t length = form.length != 0 ? form.length : static_cast<std::uint8_t>(at[1]);
  if (form.header == 0 || length - 1 > 7) return false;
  const std::uint32_t unused = 64 - 8 * length;
  const std::uint64_t word = load<std::uint64_t>(at + form.header) << unused;
  const auto with_sign = static_cast<std::int64_t>(word) >> unused;
  const auto without = static_cast<std::int64_t>(word >> unused);
  out = form.is_signed ? with_sign : without;
  at += form.header + length;
  return true;
}

// A reference to the memo.
bool decode_get(const char*& at, std::uint32_t& slot) {
  if (*at == code(Opcode::kLongBinGet)) {
    slot = load<std::uint32_t>(at + 1);
    at += 5;
    return true;
  }
  if (*at == code(Opcode::kBinGet)) {
    slot = static_cast<std::uint8_t>(at[1]);
    at += 2;
    return true;
  }
  return false;
}

// What stores a new value in the memo, if anything does: MEMOIZE, or a number that is the next one.
bool decode_put(const Bulk& bulk, const char*& at, RawEvent& event, Memo::Entry entry) {
  const std::size_t next = bulk.memo.used() + event.put_count;
  if (*at == code(Opcode::kMemoize)) {
    at += 1;
  } else if (*at == code(Opcode::kBinPut)) {
    if (static_cast<std::uint8_t>(at[1]) != next) return false;
    at += 2;
  } else if (*at == code(Opcode::kLongBinPut)) {
    if (load<std::uint32_t>(at + 1) != next) return false;
    at += 5;
  } else {
    return true;
  }
  if (event.put_count == RawEvent::kMostPuts) return false;
  event.puts[event.put_count++] = entry;
  return true;
}

}  // namespace

bool Builder::decode_text(Literal& known, const Bulk& bulk, const char*& at, RawEvent& event, std::uint32_t& out) {
  std::uint32_t slot = 0;
  if (*at == code(Opcode::kShortBinUnicode)) {
    if (known.length == 0 || std::memcmp(at, known.bytes.data(), known.length) != 0) return false;
    at += known.length;
    out = known.string;
    return decode_put(bulk, at, event, Memo::entry(Slot::kString, out));
  }
  if (!decode_get(at, slot)) return false;
  const Memo::Entry entry = bulk.memo.get(slot);
  out = entry.number();
  return entry.slot() == Slot::kString;
}

// A list that was seen before, or a new one: EMPTY_LIST, then MARK, references, APPENDS; or one and APPEND.
bool Builder::decode_frames(const Bulk& bulk, const char*& at, RawEvent& event) {
  std::uint32_t slot = 0;
  if (*at != code(Opcode::kEmptyList)) {
    if (!decode_get(at, slot)) return false;
    const Memo::Entry entry = bulk.memo.get(slot);
    if (entry.slot() != Slot::kList) return false;
    const Container list = container(entry.number());
    event.stack = list.row;
    return list.role == Role::kFrame || list.role == Role::kEmpty;
  }
  ++at;
  event.has_list = true;
  if (!decode_put(bulk, at, event, Memo::entry(Slot::kList, bulk.containers + 1))) return false;
  event.stack = 0;
  const auto frame_at = [&](const char*& from) {
    if (!decode_get(from, slot)) return false;
    const Memo::Entry entry = bulk.memo.get(slot);
    if (entry.slot() != Slot::kDict) return false;
    const Container dict = container(entry.number());
    scratch_.push_back(dict.row);
    return dict.role == Role::kFrame;
  };
  scratch_.clear();
  if (*at == code(Opcode::kMark)) {
    ++at;
    while (*at != code(Opcode::kAppends)) {
      if (!frame_at(at) || scratch_.size() > kMostFrames) return false;
      if (static_cast<std::size_t>(bulk.end - at) < kLongestRecord) return false;
    }
    ++at;
    if (scratch_.empty()) return false;
  } else {
    const char* behind = at;
    std::uint32_t ignored = 0;
    if (!decode_get(behind, ignored) || *behind != code(Opcode::kAppend)) return true;  // the list stays empty
    if (!frame_at(at)) return false;
    ++at;
  }
  if (snapshot_.stacks.size() + 1 >= most_distinct_) return false;
  event.stack = enter_stack(scratch_);
  return event.stack != InternTable::kNone;
}

bool Builder::decode_field(Key key, const Bulk& bulk, const char*& at, RawEvent& event) {
  std::int64_t number = 0;
  switch (key) {
    case Key::kAction: {
      std::uint32_t slot = 0;
      if (!decode_get(at, slot)) return false;
      const Memo::Entry entry = bulk.memo.get(slot);
      event.action = entry.number();
      return entry.slot() == Slot::kString;
    }
    case Key::kAddr:
      if (!decode_integer(at, number)) return false;
      event.address = static_cast<std::uint64_t>(number);
      return number >= 0;
    case Key::kSize:
      return decode_integer(at, event.size) && event.size >= 0;
    case Key::kStream:
      if (!decode_integer(at, number)) return false;
      event.stream = static_cast<std::uint64_t>(number);
      return true;
    case Key::kTimeUs:
      return decode_integer(at, event.time_us);
    case Key::kCompileContext:
      return decode_text(compile_context_, bulk, at, event, event.compile_context);
    case Key::kUserMetadata:
      return decode_text(user_metadata_, bulk, at, event, event.user_metadata);
    case Key::kPoolId: {
      std::int64_t second = 0;
      if (!decode_integer(at, number) || !decode_integer(at, second) || *at != code(Opcode::kTuple2)) return false;
      ++at;
      event.pool = {static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(second)};
      const std::uint32_t tuple = tuple_number(event.pool);
      if (tuple == InternTable::kNone) return false;
      return decode_put(bulk, at, event, Memo::entry(Slot::kTuple, tuple));
    }
    case Key::kFrames:
      return decode_frames(bulk, at, event);
    default:
      return false;
  }
}

// EMPTY_DICT, perhaps stored in the memo, and MARK.
static bool decode_head(const Bulk& bulk, const char*& at, RawEvent& event) {
  if (static_cast<std::size_t>(bulk.end - at) < kLongestRecord || *at != code(Opcode::kEmptyDict)) return false;
  ++at;
  if (!decode_put(bulk, at, event, Memo::entry(Slot::kDict, bulk.containers))) return false;
  return *at++ == code(Opcode::kMark);
}

bool Builder::learn_shape(const Bulk& bulk) {
  EventShape shape;
  RawEvent event;
  const char* at = bulk.at;
  if (!decode_head(bulk, at, event)) return false;
  std::uint64_t keys = 0;
  while (*at != code(Opcode::kSetItems)) {
    if (shape.count == EventShape::kMostFields || static_cast<std::size_t>(bulk.end - at) < kLongestRecord)
      return false;
    EventShape::Field& field = shape.fields[shape.count++];
    const char* const start = at;
    std::uint32_t slot = 0;
    if (!decode_get(at, slot)) return false;
    const Memo::Entry entry = bulk.memo.get(slot);
    if (entry.slot() != Slot::kString) return false;
    field.key = key_of_[entry.number()];
    if (field.key == Key::kUnknown || (bit(field.key) & kBulkKeys) == 0 || (bit(field.key) & keys) != 0) return false;
    keys |= bit(field.key);
    field.length = static_cast<std::uint8_t>(at - start);
    field.mask = (std::uint64_t{1} << (8 * field.length)) - 1;
    field.bytes = load<std::uint64_t>(start) & field.mask;
    if (!decode_field(field.key, bulk, at, event)) return false;
  }
  if ((keys & kNeededKeys) != kNeededKeys) return false;
  shape_ = shape;
  return true;
}

bool Builder::match_event(const Bulk& bulk, const char*& at, RawEvent& event) {
  if (!decode_head(bulk, at, event)) return false;
  for (std::size_t i = 0; i < shape_.count; ++i) {
    const EventShape::Field& field = shape_.fields[i];
    if (((load<std::uint64_t>(at) ^ field.bytes) & field.mask) != 0) return false;
    at += field.length;
    if (!decode_field(field.key, bulk, at, event)) return false;
  }
  return *at++ == code(Opcode::kSetItems);
}

bool Builder::commit_event(Bulk& bulk, const RawEvent& raw) {
  Events& events = snapshot_.events;
  const std::size_t row = events.count();
  const Action action = action_of_[raw.action];
  const bool is_plain = action != Action::kOther;
  const std::uint32_t stream = stream_number(raw.stream);
  if (!is_plain || stream == InternTable::kNone || row >= kMostRows) return false;

  Note note;
  note.event = static_cast<std::uint32_t>(row);
  if (raw.compile_context != kNoString && snapshot_.strings[raw.compile_context] != "N/A")
    note.compile_context = raw.compile_context;
  if (raw.user_metadata != kNoString && !snapshot_.strings[raw.user_metadata].empty())
    note.user_metadata = raw.user_metadata;
  note.pool = raw.pool;
  if (note.compile_context != kNoString || note.user_metadata != kNoString || note.pool != PoolId{})
    snapshot_.notes.push_back(note);

  events.action.push_back(action);
  events.address.push_back(raw.address);
  events.size.push_back(raw.size);
  events.stream.push_back(stream);
  events.time_us.push_back(raw.time_us);
  events.stack.push_back(raw.stack);

  const std::uint32_t dict = bulk.containers++;
  set_container(dict, Role::kEvent, row);
  if (raw.has_list) {
    const std::uint32_t list = bulk.containers++;
    if (raw.stack != 0) set_container(list, Role::kFrame, raw.stack);
  }
  bulk.stack.push_back({Kind::kDict, dict, 0});
  for (std::size_t i = 0; i < raw.put_count; ++i) bulk.memo.append(raw.puts[i]);
  return true;
}

void Builder::on_bulk(Bulk& bulk) {
  if (!bulk.memo.is_dense()) return;
  bool has_learnt = false;
  while (bulk.stack.size() < bulk.most_stack && bulk.containers + kContainersPerEvent <= bulk.most_containers &&
         bulk.memo.used() + RawEvent::kMostPuts <= bulk.most_memo) {
    const char* at = bulk.at;
    RawEvent event;
    if (shape_.count == 0 || !match_event(bulk, at, event)) {
      // A shape is learnt at most once per call: the machine reads what two shapes do not fit.
      if (has_learnt || !learn_shape(bulk)) return;
      has_learnt = true;
      continue;
    }
    if (!commit_event(bulk, event)) return;
    bulk.at = at;
  }
}

}  // namespace plimsoll::snapshot
