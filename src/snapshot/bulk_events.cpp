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

// An opcode that holds an integer: bytes before the integer, its bytes (0: the second byte says), whether it has a
// sign. One word, so that a look-up is one load.
struct IntegerForm {
  std::uint32_t bits = 0;  // 0: no integer

  [[nodiscard]] std::uint32_t header() const { return bits & 0xff; }
  [[nodiscard]] std::uint32_t length() const { return bits >> 8 & 0xff; }
  [[nodiscard]] bool is_signed() const { return bits >> 16 != 0; }
};

constexpr std::array<IntegerForm, 256> kIntegerForms = [] {
  std::array<IntegerForm, 256> forms{};
  forms[static_cast<std::uint8_t>(Opcode::kBinInt1)] = {0x00101};
  forms[static_cast<std::uint8_t>(Opcode::kBinInt2)] = {0x00201};
  forms[static_cast<std::uint8_t>(Opcode::kBinInt)] = {0x10401};
  forms[static_cast<std::uint8_t>(Opcode::kLong1)] = {0x10002};
  return forms;
}();

// Any integer of 1 to 8 bytes, with no branch on its length: sizes vary from event to event.
const char* decode_integer(const char* at, std::int64_t& out) {
  const IntegerForm form = kIntegerForms[static_cast<std::uint8_t>(*at)];
  const std::uint32_t length = form.length() != 0 ? form.length() : static_cast<std::uint8_t>(at[1]);
  if (form.bits == 0 || length - 1 > 7) return nullptr;
  const std::uint32_t unused = 64 - 8 * length;
  const std::uint64_t word = load<std::uint64_t>(at + form.header()) << unused;
  const auto with_sign = static_cast<std::int64_t>(word) >> unused;
  const auto without = static_cast<std::int64_t>(word >> unused);
  out = form.is_signed() ? with_sign : without;
  return at + form.header() + length;
}

// A reference to the memo.
const char* decode_get(const char* at, std::uint32_t& slot) {
  if (*at == code(Opcode::kLongBinGet)) {
    slot = load<std::uint32_t>(at + 1);
    return at + 5;
  }
  slot = static_cast<std::uint8_t>(at[1]);
  return *at == code(Opcode::kBinGet) ? at + 2 : nullptr;
}

// A reference to a value of that kind.
const char* decode_get(const char* at, const Memo& memo, Slot kind, std::uint32_t& number) {
  std::uint32_t slot = 0;
  at = decode_get(at, slot);
  if (at == nullptr) return nullptr;
  const Memo::Entry entry = memo.get(slot);
  number = entry.number();
  return entry.slot() == kind ? at : nullptr;
}

// What stores a new value in the memo, if anything does: MEMOIZE, or a number that is the next one.
const char* decode_put(const Bulk& bulk, const char* at, RawEvent& event, Memo::Entry entry) {
  const std::size_t next = bulk.memo.used() + event.put_count;
  if (*at == code(Opcode::kMemoize)) {
    at += 1;
  } else if (*at == code(Opcode::kBinPut)) {
    if (static_cast<std::uint8_t>(at[1]) != next) return nullptr;
    at += 2;
  } else if (*at == code(Opcode::kLongBinPut)) {
    if (load<std::uint32_t>(at + 1) != next) return nullptr;
    at += 5;
  } else {
    return at;
  }
  if (event.put_count == RawEvent::kMostPuts) return nullptr;
  event.puts[event.put_count++] = entry;
  return at;
}

const char* decode_text(const Literal& known, const Bulk& bulk, const char* at, RawEvent& event, std::uint32_t& out) {
  std::uint32_t length = 0;
  if (*at == code(Opcode::kShortBinUnicode)) {
    length = static_cast<std::uint8_t>(at[1]);
    at += 2;
  } else if (*at == code(Opcode::kBinUnicode)) {
    length = load<std::uint32_t>(at + 1);
    at += 5;
  } else {
    return decode_get(at, bulk.memo, Slot::kString, out);
  }
  if (!known.stands_at(at, length)) return nullptr;
  out = known.string;
  return decode_put(bulk, at + known.length, event, Memo::entry(Slot::kString, out));
}

// EMPTY_DICT, perhaps stored in the memo, and MARK.
const char* decode_head(const Bulk& bulk, const char* at, RawEvent& event) {
  if (static_cast<std::size_t>(bulk.end - at) < kLongestRecord || *at != code(Opcode::kEmptyDict)) return nullptr;
  at = decode_put(bulk, at + 1, event, Memo::entry(Slot::kDict, bulk.containers));
  return at != nullptr && *at == code(Opcode::kMark) ? at + 1 : nullptr;
}

// Learns the width of the integer that follows the key.
void learn_integer(EventShape::Field& field, const char* key_at) {
  const char* const at = key_at + field.length;
  const IntegerForm form = kIntegerForms[static_cast<std::uint8_t>(*at)];
  if (!form.is_signed()) return;  // a width of one or two bytes changes often, and has no sign to extend
  const std::uint32_t length = form.length() != 0 ? form.length() : static_cast<std::uint8_t>(at[1]);
  const std::uint32_t head = field.length + form.header();
  field.integer_mask = (std::uint64_t{1} << (8 * head)) - 1;
  field.integer_bytes = load<std::uint64_t>(key_at) & field.integer_mask;
  field.integer_at = static_cast<std::uint8_t>(head);
  field.integer_unused = static_cast<std::uint8_t>(64 - 8 * length);
  field.integer_end = static_cast<std::uint8_t>(head + length);
}

}  // namespace

// A list that was seen before, or a new one: EMPTY_LIST, then MARK, references, APPENDS; or one and APPEND.
const char* Builder::decode_frames(const Bulk& bulk, const char* at, RawEvent& event) {
  std::uint32_t number = 0;
  if (*at != code(Opcode::kEmptyList)) {
    at = decode_get(at, bulk.memo, Slot::kList, number);
    if (at == nullptr) return nullptr;
    const Container list = container(number);
    event.stack = list.row;
    return list.role == Role::kFrame || list.role == Role::kEmpty ? at : nullptr;
  }
  event.has_list = true;
  event.stack = 0;
  at = decode_put(bulk, at + 1, event, Memo::entry(Slot::kList, bulk.containers + 1));
  if (at == nullptr) return nullptr;
  std::array<std::uint32_t, kMostFrames> frames;
  std::size_t count = 0;
  const auto frame_at = [&](const char* from) -> const char* {
    from = decode_get(from, bulk.memo, Slot::kDict, number);
    if (from == nullptr) return nullptr;
    const Container dict = container(number);
    frames[count++] = dict.row;
    return dict.role == Role::kFrame ? from : nullptr;
  };
  if (*at == code(Opcode::kMark)) {
    ++at;
    while (*at != code(Opcode::kAppends)) {
      if (count == kMostFrames || static_cast<std::size_t>(bulk.end - at) < kLongestRecord) return nullptr;
      at = frame_at(at);
      if (at == nullptr) return nullptr;
    }
    if (count == 0) return nullptr;
  } else {
    std::uint32_t ignored = 0;
    const char* const behind = decode_get(at, ignored);
    if (behind == nullptr || *behind != code(Opcode::kAppend)) return at;  // the list stays empty
    at = frame_at(at);
    if (at == nullptr) return nullptr;
  }
  if (snapshot_.stacks.size() + 1 >= most_distinct_) return nullptr;
  event.stack = enter_stack({frames.data(), count});
  return event.stack != InternTable::kNone ? at + 1 : nullptr;
}

const char* Builder::decode_field(Key key, const Bulk& bulk, const char* at, RawEvent& event) {
  std::int64_t number = 0;
  switch (key) {
    case Key::kAction:
      return decode_get(at, bulk.memo, Slot::kString, event.action);
    case Key::kAddr:
      at = decode_integer(at, number);
      event.address = static_cast<std::uint64_t>(number);
      return number >= 0 ? at : nullptr;
    case Key::kSize:
      at = decode_integer(at, number);
      event.size = number;
      return number >= 0 && number <= kMostBytes ? at : nullptr;
    case Key::kStream:
      at = decode_integer(at, number);
      event.stream = static_cast<std::uint64_t>(number);
      return at;
    case Key::kTimeUs:
      return decode_integer(at, event.time_us);
    case Key::kCompileContext:
      return decode_text(compile_context_, bulk, at, event, event.compile_context);
    case Key::kUserMetadata:
      return decode_text(user_metadata_, bulk, at, event, event.user_metadata);
    case Key::kPoolId: {
      std::int64_t second = 0;
      std::uint32_t known = 0;
      if (const char* behind = decode_get(at, bulk.memo, Slot::kTuple, known)) {
        event.pool = tuples_[known];
        return known != 0 ? behind : nullptr;
      }
      at = decode_integer(at, number);
      if (at != nullptr) at = decode_integer(at, second);
      if (at == nullptr || *at != code(Opcode::kTuple2)) return nullptr;
      event.pool = {static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(second)};
      const std::uint32_t tuple = tuple_number(event.pool);
      if (tuple == InternTable::kNone) return nullptr;
      return decode_put(bulk, at + 1, event, Memo::entry(Slot::kTuple, tuple));
    }
    case Key::kFrames:
      return decode_frames(bulk, at, event);
    default:
      return nullptr;
  }
}

bool Builder::learn_shape(const Bulk& bulk) {
  EventShape shape;
  RawEvent event;
  const char* at = decode_head(bulk, bulk.at, event);
  if (at == nullptr) return false;
  std::uint64_t keys = 0;
  while (*at != code(Opcode::kSetItems)) {
    if (shape.count == EventShape::kMostFields || static_cast<std::size_t>(bulk.end - at) < kLongestRecord)
      return false;
    EventShape::Field& field = shape.fields[shape.count++];
    const char* const start = at;
    std::uint32_t string = 0;
    at = decode_get(at, bulk.memo, Slot::kString, string);
    if (at == nullptr) return false;
    field.key = key_of_[string];
    if (field.key == Key::kUnknown || (bit(field.key) & kBulkKeys) == 0 || (bit(field.key) & keys) != 0) return false;
    keys |= bit(field.key);
    field.length = static_cast<std::uint8_t>(at - start);
    field.mask = (std::uint64_t{1} << (8 * field.length)) - 1;
    field.bytes = load<std::uint64_t>(start) & field.mask;
    at = decode_field(field.key, bulk, at, event);
    if (at == nullptr) return false;
    if (field.key == Key::kAddr || field.key == Key::kTimeUs) learn_integer(field, start);
  }
  if ((keys & kNeededKeys) != kNeededKeys) return false;
  shape_ = shape;
  raw_ = RawEvent{};
  return true;
}

const char* Builder::match_event(const Bulk& bulk) {
  raw_.restart();
  const char* at = decode_head(bulk, bulk.at, raw_);
  if (at == nullptr) return nullptr;
  const EventShape::Field* const end = shape_.fields.data() + shape_.count;
  for (const EventShape::Field* field = shape_.fields.data(); field != end; ++field) {
    const auto word = load<std::uint64_t>(at);
    if (field->integer_end != 0 && ((word ^ field->integer_bytes) & field->integer_mask) == 0) {
      const auto shifted =
          static_cast<std::int64_t>(load<std::uint64_t>(at + field->integer_at) << field->integer_unused);
      const std::int64_t number = shifted >> field->integer_unused;
      at += field->integer_end;
      if (field->key == Key::kTimeUs) {
        raw_.time_us = number;
      } else {
        raw_.address = static_cast<std::uint64_t>(number);
        if (number < 0) return nullptr;
      }
      continue;
    }
    if (((word ^ field->bytes) & field->mask) != 0) return nullptr;
    at = decode_field(field->key, bulk, at + field->length, raw_);
    if (at == nullptr) return nullptr;
  }
  return *at == code(Opcode::kSetItems) ? at + 1 : nullptr;
}

// The columns get the rows later; everything that the next event may refer to is entered at once.
bool Builder::commit_event(Bulk& bulk) {
  const std::size_t row = snapshot_.events.count() + rows_.count;
  const Action action = action_of_[raw_.action];
  const bool is_same_stream = last_stream_ < snapshot_.streams.size() && snapshot_.streams[last_stream_] == raw_.stream;
  const std::uint32_t stream = is_same_stream ? last_stream_ : stream_number(raw_.stream);
  if (action == Action::kOther || stream == InternTable::kNone || row >= kMostRows) return false;

  const std::uint32_t compiled = raw_.compile_context == not_compiled_ ? kNoString : raw_.compile_context;
  const std::uint32_t metadata = raw_.user_metadata == no_text_ ? kNoString : raw_.user_metadata;
  if (compiled != kNoString || metadata != kNoString || raw_.pool != PoolId{}) {
    Note note;
    note.event = static_cast<std::uint32_t>(row);
    note.compile_context = compiled;
    note.user_metadata = metadata;
    note.pool = raw_.pool;
    if (!push_row(snapshot_.notes, note)) return false;
  }
  const std::size_t at = rows_.count++;
  rows_.action[at] = action;
  rows_.address[at] = raw_.address;
  rows_.size[at] = raw_.size;
  rows_.stream[at] = stream;
  rows_.time_us[at] = raw_.time_us;
  rows_.stack[at] = raw_.stack;

  const std::uint32_t dict = bulk.containers++;
  containers_.append(make_container(Role::kEvent, row));
  if (raw_.has_list) {
    ++bulk.containers;
    containers_.append(make_container(raw_.stack == 0 ? Role::kEmpty : Role::kFrame, raw_.stack));
  }
  bulk.stack.append({Kind::kDict, dict, 0});
  bulk.memo.append(raw_.puts, raw_.put_count);
  return true;
}

// Reads at most EventRows::kMost events, so that there is room for all of them in every table.
bool Builder::read_batch(Bulk& bulk) {
  containers_.resize(bulk.containers);
  containers_.make_room(kContainersPerEvent * EventRows::kMost);
  bulk.memo.make_room(RawEvent::kMostPuts * EventRows::kMost);
  bulk.stack.make_room(EventRows::kMost);
  while (rows_.count < EventRows::kMost) {
    const char* const behind = match_event(bulk);
    if (behind == nullptr || !commit_event(bulk)) break;
    bulk.at = behind;
  }
  const bool is_full = rows_.count == EventRows::kMost;
  rows_.move_to(snapshot_.events);
  return is_full;
}

void Builder::on_bulk(Bulk& bulk) {
  constexpr std::size_t kMost = EventRows::kMost;
  if (!bulk.memo.is_dense()) return;
  bool has_learnt = false;
  while (bulk.stack.size() + kMost <= bulk.most_stack &&
         bulk.containers + kContainersPerEvent * kMost <= bulk.most_containers &&
         bulk.memo.used() + RawEvent::kMostPuts * kMost <= bulk.most_memo) {
    if (shape_.count != 0 && read_batch(bulk)) continue;
    // A shape is learnt at most once per call: the machine reads what two shapes do not fit.
    if (has_learnt || !learn_shape(bulk)) return;
    has_learnt = true;
  }
}

}  // namespace plimsoll::snapshot
