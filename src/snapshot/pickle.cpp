// SPDX-License-Identifier: Apache-2.0
// The stack machine. Its steps return false and leave the error aside, since a Status per opcode slowed reading.
// Whole records may be read by the sink itself (Bulk); whatever it leaves is read here, opcode by opcode.
#include "snapshot/pickle.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "snapshot/intern.h"
#include "snapshot/opcodes.h"

namespace plimsoll::snapshot {

namespace {

// A sink that reads records by itself wants this much at once; a record that is longer is read opcode by opcode.
constexpr std::size_t kBulkMargin = 4096;

class Machine {
 public:
  Machine(Window& input, PickleSink& sink, const PickleLimits& limits)
      : input_(input), at_(input.begin()), end_(input.end()), opcode_at_(at_), sink_(sink), limits_(limits) {
    set_bounds();
    memo_.make_room(std::min<std::size_t>(kMostReserved, input.known_size() / kBytesPerMemoEntry));
  }

  Result<Value> run();

 private:
  bool step();
  bool bulk();
  bool refuse();

  // The error of the opcode being read.
  bool fail(const std::string& what);
  bool told(const Status& status);

  // Bytes that can be read without asking for more.
  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  // Asks for more until `wanted` bytes are there; false at the end of the input, or when it cannot be read.
  bool more(std::size_t wanted);
  [[nodiscard]] bool has(std::size_t wanted) { return left() >= wanted || more(wanted); }
  void set_bounds();
  bool check_memory();
  [[nodiscard]] std::uint64_t offset(const char* at) const {
    return input_.offset() + static_cast<std::uint64_t>(at - input_.begin());
  }

  template <class T>
  [[nodiscard]] bool take(T& value) {  // little-endian
    if (left() < sizeof(T) && !more(sizeof(T))) [[unlikely]]
      return false;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  bool truncated(std::size_t wanted);

  bool push(Value value) {
    if (stack_.size() >= most_stack_) [[unlikely]]
      return fail(fmt::format("the stack is full; wanted at most {} entries for a file of this size", most_stack_));
    stack_.push_back(value);
    return true;
  }
  bool push_integer(std::int64_t value) { return push({Kind::kInt, 0, value}); }

  template <class Length>
  bool read_string() {
    Length length{};
    if (!take(length)) return truncated(sizeof(Length));
    if (length > limits_.longest_string) {
      if (input_.is_whole() && length > input_.whole_left(at_)) return truncated(length);
      return fail(fmt::format("a string of {} bytes; wanted at most {}", length, limits_.longest_string));
    }
    if (!has(length)) return truncated(length);
    return intern({at_, static_cast<std::size_t>(length)});
  }
  template <class Length>
  bool skip_bytes() {
    Length length{};
    if (!take(length)) return truncated(sizeof(Length));
    for (std::uint64_t rest = length; rest != 0;) {
      if (!has(1)) return truncated(rest);
      const std::size_t step = std::min<std::uint64_t>(rest, left());
      at_ += step;
      rest -= step;
    }
    return push({Kind::kBytes, 0, 0});
  }
  bool intern(std::string_view text);
  bool read_long(std::size_t length);
  bool read_float();
  bool new_container(Kind kind);
  bool tuple(std::size_t count);
  bool get(std::size_t slot);
  bool put(std::size_t slot);
  bool fill(Kind kind, std::size_t first);

  [[nodiscard]] std::span<const Value> entries_from(std::size_t first) const {
    return {stack_.data() + first, stack_.size() - first};
  }
  // How many entries lie above the innermost mark (or the bottom): what an opcode may take.
  [[nodiscard]] std::size_t reachable() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  bool underflow(std::size_t wanted) {
    return fail(fmt::format("{} entries are on the stack; wanted {}", reachable(), wanted));
  }
  bool no_mark() { return fail("no MARK is open; wanted one before it"); }

  static constexpr std::size_t kBytesPerMemoEntry = 24;  // about what was seen: reserved memory, not touched memory
  static constexpr std::size_t kMostReserved = 1U << 27;

  Window& input_;
  const char* at_;
  const char* end_;
  const char* opcode_at_;
  PickleSink& sink_;
  PickleLimits limits_;
  std::size_t most_stack_ = 0;
  std::size_t most_memo_ = 0;
  std::size_t most_containers_ = 0;
  std::size_t most_strings_ = 0;
  std::size_t most_bytes_ = 0;
  bool stopped_ = false;
  bool has_failed_ = false;  // outside an opcode: error_ stands as it is
  Error error_;              // of the opcode that failed

  PodArray<Value> stack_;
  std::vector<std::size_t> marks_;  // stack heights
  Memo memo_;
  std::vector<Value> scalars_;  // memoised scalars: legal, never written by the known writers
  std::uint32_t containers_ = 0;
  std::uint32_t strings_ = 0;
  std::size_t string_bytes_ = 0;
  InternTable string_table_;
};

bool Machine::fail(const std::string& what) {
  if (has_failed_) return false;
  const auto opcode = static_cast<std::uint8_t>(*opcode_at_);
  const std::string_view name = opcode_name(opcode);
  error_.message = fmt::format("byte {}: {}: {}", offset(opcode_at_),
                               name.empty() ? fmt::format("opcode 0x{:02x}", opcode) : std::string(name), what);
  return false;
}

bool Machine::told(const Status& status) {
  if (status) [[likely]]
    return true;
  return fail(status.error().message);
}

void Machine::set_bounds() {
  const std::uint64_t bytes = input_.known_size();
  const auto most = [&](std::size_t spare, std::size_t bytes_per_one, std::size_t largest) {
    return static_cast<std::size_t>(std::min<std::uint64_t>(spare + bytes / bytes_per_one, largest));
  };
  most_stack_ = most(limits_.spare, limits_.bytes_per_stack_entry, SIZE_MAX);
  most_memo_ = most(limits_.spare, limits_.bytes_per_memo_entry, Memo::kMostNumber);
  most_containers_ = most(limits_.spare, limits_.bytes_per_container, Memo::kMostNumber);
  most_strings_ = most(limits_.spare_strings, limits_.bytes_per_string, Memo::kMostNumber);
  most_bytes_ = limits_.spare_bytes + bytes / 100 * limits_.held_percent;
  sink_.set_budget(most_bytes_);
}

bool Machine::more(std::size_t wanted) {
  while (left() < wanted) {
    if (input_.is_at_end() || has_failed_) return false;
    const auto behind = at_ - opcode_at_;
    if (auto status = input_.extend(opcode_at_); !status) {
      error_ = std::move(status.error());
      has_failed_ = true;
      return false;
    }
    opcode_at_ = input_.begin();
    at_ = opcode_at_ + behind;
    end_ = input_.end();
    set_bounds();
    if (!check_memory()) return false;
  }
  return true;
}

bool Machine::check_memory() {
  const std::size_t held = sink_.held_bytes() + memo_.held_bytes() + stack_.size() * sizeof(Value) +
                           scalars_.size() * sizeof(Value) + string_table_.held_bytes();
  if (held <= most_bytes_) return true;
  error_.message = fmt::format("byte {}: what was read takes {} bytes; wanted at most {} for a file of this size",
                               offset(at_), held, most_bytes_);
  has_failed_ = true;
  return false;
}

bool Machine::truncated(std::size_t wanted) {
  const std::uint64_t left_over = input_.is_whole() ? input_.whole_left(at_) : left();
  return fail(fmt::format("{} bytes are left; wanted {}", left_over, wanted));
}

bool Machine::intern(std::string_view text) {
  at_ += text.size();
  const std::uint32_t next = strings_;
  const std::uint32_t id = string_table_.find_or_enter(hash_text(text), next,
                                                       [&](std::uint32_t known) { return sink_.text(known) == text; });
  if (id == InternTable::kNone) return fail("too many strings share one hash; wanted a snapshot's few thousand names");
  if (id == next) {
    string_bytes_ += text.size();
    if (strings_ >= most_strings_ || string_bytes_ > limits_.all_strings)
      return fail(fmt::format("{} distinct strings of {} bytes together; wanted at most {} and {}", strings_ + 1,
                              string_bytes_, most_strings_, limits_.all_strings));
    ++strings_;
    if (!told(sink_.on_string(id, text))) return false;
  }
  return push({Kind::kString, id, 0});
}

// Little-endian two's complement of any length; an unsigned 64-bit value takes 9 bytes (facts snapshot-format.md 1).
bool Machine::read_long(std::size_t length) {
  if (length > 9 && (!input_.is_whole() || length <= input_.whole_left(at_)))
    return fail(fmt::format("an integer of {} bytes; wanted at most 9", length));
  if (!has(length)) return truncated(length);
  std::uint64_t word = 0;
  if (length >= 1 && length <= 8 && left() >= 8) [[likely]] {
    std::memcpy(&word, at_, 8);
    at_ += length;
    const std::size_t unused = 64 - 8 * length;
    return push_integer(static_cast<std::int64_t>(word << unused) >> unused);
  }
  std::memcpy(&word, at_, std::min<std::size_t>(length, 8));
  const bool negative = length != 0 && (static_cast<unsigned char>(at_[length - 1]) & 0x80) != 0;
  if (length < 8 && negative) word |= ~std::uint64_t{0} << (8 * length);
  const bool high = (word >> 63) != 0;
  if (length == 9) {
    const auto top = static_cast<unsigned char>(at_[8]);
    if (top != 0 && !(top == 0xff && high)) return fail("an integer beyond 64 bits; wanted one from -2^63 to 2^64 - 1");
  }
  at_ += length;
  return push({length == 9 && high && !negative ? Kind::kUint : Kind::kInt, 0, static_cast<std::int64_t>(word)});
}

bool Machine::read_float() {
  std::uint64_t big_endian = 0;
  if (!take(big_endian)) return truncated(8);
  return push({Kind::kFloat, 0, static_cast<std::int64_t>(__builtin_bswap64(big_endian))});
}

bool Machine::new_container(Kind kind) {
  if (containers_ >= most_containers_)
    return fail(fmt::format("too many lists and dicts; wanted at most {} in a file of this size", most_containers_));
  return push({kind, containers_++, 0});
}

bool Machine::tuple(std::size_t count) {
  if (reachable() < count) return underflow(count);
  const std::size_t first = stack_.size() - count;
  auto id = sink_.on_tuple(entries_from(first));
  if (!id) return fail(id.error().message);
  if (*id > Memo::kMostNumber) return fail("too many distinct tuples");
  stack_.resize(first);
  return push({Kind::kTuple, *id, 0});
}

bool Machine::get(std::size_t slot) {
  const Memo::Entry entry = memo_.get(slot);
  if (entry.slot() == Slot::kEmpty) [[unlikely]]
    return fail(fmt::format("memo slot {} is empty; wanted a value stored before", slot));
  constexpr Kind kKinds[] = {Kind::kNone, Kind::kString, Kind::kTuple, Kind::kList, Kind::kDict};
  return push(entry.slot() == Slot::kScalar ? scalars_[entry.number()]
                                            : Value{kKinds[static_cast<std::size_t>(entry.slot())], entry.number(), 0});
}

bool Machine::put(std::size_t slot) {
  if (reachable() < 1) return underflow(1);
  if (slot >= most_memo_)
    return fail(fmt::format("memo slot {}; wanted one below {} in a file of this size", slot, most_memo_));
  const Value& top = stack_.back();
  Slot kind = Slot::kScalar;
  std::uint32_t id = top.id;
  switch (top.kind) {
    case Kind::kString:
      kind = Slot::kString;
      break;
    case Kind::kTuple:
      kind = Slot::kTuple;
      break;
    case Kind::kList:
      kind = Slot::kList;
      break;
    case Kind::kDict:
      kind = Slot::kDict;
      break;
    default:
      if (scalars_.size() >= limits_.spare) return fail("too many memoised numbers; wanted none");
      id = static_cast<std::uint32_t>(scalars_.size());
      scalars_.push_back(top);
  }
  memo_.put(slot, Memo::entry(kind, id));
  return true;
}

// Hands the entries from `first` on to the container below them.
bool Machine::fill(Kind kind, std::size_t first) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (first <= floor) return fail(fmt::format("nothing lies below the items; wanted {}", kind_name(kind)));
  const Value& container = stack_[first - 1];
  if (container.kind != kind)
    return fail(fmt::format("{} lies below the items; wanted {}", kind_name(container.kind), kind_name(kind)));
  const auto items = entries_from(first);
  if (kind == Kind::kList) {
    if (!told(sink_.on_append(container.id, items))) return false;
  } else {
    if (items.size() % 2 != 0) return fail("a key has no value; wanted pairs");
    if (!told(sink_.on_set_items(container.id, items))) return false;
  }
  stack_.resize(first);
  return true;
}

bool Machine::refuse() {
  const auto opcode = static_cast<std::uint8_t>(*opcode_at_);
  if (carries_code(opcode)) {
    error_.hint = "the file is no memory snapshot as PyTorch writes it; do not open it with Python";
    return fail("this opcode carries code; wanted plain data (refused, nothing was run)");
  }
  return fail(opcode_name(opcode).empty() ? "no such opcode; wanted a pickle of protocol 2 to 5"
                                          : "snapshots hold no such value; wanted what PyTorch's writers use");
}

bool Machine::step() {
  std::uint8_t byte = 0;
  std::uint16_t half = 0;
  std::int32_t word = 0;
  std::uint32_t index = 0;
  switch (static_cast<Opcode>(*opcode_at_)) {
    case Opcode::kBinGet:
      return take(byte) ? get(byte) : truncated(1);
    case Opcode::kLongBinGet:
      return take(index) ? get(index) : truncated(4);
    case Opcode::kBinPut:
      return take(byte) ? put(byte) : truncated(1);
    case Opcode::kLongBinPut:
      return take(index) ? put(index) : truncated(4);
    case Opcode::kMemoize:
      return put(memo_.used());
    case Opcode::kBinInt1:
      return take(byte) ? push_integer(byte) : truncated(1);
    case Opcode::kBinInt2:
      return take(half) ? push_integer(half) : truncated(2);
    case Opcode::kBinInt:
      return take(word) ? push_integer(word) : truncated(4);
    case Opcode::kLong1:
      return take(byte) ? read_long(byte) : truncated(1);
    case Opcode::kLong4:
      if (!take(word)) return truncated(4);
      if (word < 0) return fail(fmt::format("a length of {}; wanted at most 9", word));
      return read_long(static_cast<std::size_t>(word));
    case Opcode::kBinFloat:
      return read_float();
    case Opcode::kNone:
      return push({});
    case Opcode::kNewTrue:
      return push({Kind::kBool, 0, 1});
    case Opcode::kNewFalse:
      return push({Kind::kBool, 0, 0});
    case Opcode::kShortBinUnicode:
      return read_string<std::uint8_t>();
    case Opcode::kBinUnicode:
      return read_string<std::uint32_t>();
    case Opcode::kBinUnicode8:
      return read_string<std::uint64_t>();
    case Opcode::kShortBinBytes:
      return skip_bytes<std::uint8_t>();
    case Opcode::kBinBytes:
      return skip_bytes<std::uint32_t>();
    case Opcode::kBinBytes8:
    case Opcode::kByteArray8:
      return skip_bytes<std::uint64_t>();
    case Opcode::kEmptyDict:
      return new_container(Kind::kDict);
    case Opcode::kEmptyList:
      return new_container(Kind::kList);
    case Opcode::kEmptyTuple:
      return tuple(0);
    case Opcode::kTuple1:
      return tuple(1);
    case Opcode::kTuple2:
      return tuple(2);
    case Opcode::kTuple3:
      return tuple(3);
    case Opcode::kMark:
      if (marks_.size() >= limits_.deepest_mark)
        return fail(fmt::format("nesting of more than {} levels; wanted a snapshot's dozen", limits_.deepest_mark));
      marks_.push_back(stack_.size());
      return true;
    case Opcode::kTuple: {
      if (marks_.empty()) return no_mark();
      const std::size_t count = reachable();
      if (!tuple(count)) return false;
      marks_.pop_back();
      return true;
    }
    case Opcode::kAppends:
    case Opcode::kSetItems: {
      if (marks_.empty()) return no_mark();
      const std::size_t first = marks_.back();
      marks_.pop_back();
      return fill(static_cast<Opcode>(*opcode_at_) == Opcode::kAppends ? Kind::kList : Kind::kDict, first);
    }
    case Opcode::kAppend:
      return reachable() < 2 ? underflow(2) : fill(Kind::kList, stack_.size() - 1);
    case Opcode::kSetItem:
      return reachable() < 3 ? underflow(3) : fill(Kind::kDict, stack_.size() - 2);
    case Opcode::kPop:
      if (reachable() < 1) return underflow(1);
      stack_.pop_back();
      return true;
    case Opcode::kPopMark:
      if (marks_.empty()) return no_mark();
      stack_.resize(marks_.back());
      marks_.pop_back();
      return true;
    case Opcode::kDup:
      if (reachable() < 1) return underflow(1);
      return push(Value(stack_.back()));
    case Opcode::kFrame: {
      std::uint64_t length = 0;
      if (!take(length)) return truncated(8);
      // A stream's length is not known; where it is cut, another opcode will say so.
      if (input_.is_whole() && length > input_.whole_left(at_)) return truncated(length);
      return true;
    }
    case Opcode::kProto:
      return fail("PROTO inside the pickle; wanted it as the first opcode only");
    case Opcode::kStop:
      if (stack_.size() != 1 || !marks_.empty())
        return fail(
            fmt::format("{} values and {} open marks at the end; wanted one value", stack_.size(), marks_.size()));
      if (has(1))
        return fail(
            fmt::format("{} bytes follow the end; wanted none", input_.is_whole() ? input_.whole_left(at_) : left()));
      if (has_failed_) return false;
      stopped_ = true;
      return true;
  }
  return refuse();
}

// Lets the sink read what it can from an EMPTY_DICT on; whether it read anything.
bool Machine::bulk() {
  if (!limits_.allows_bulk || (!has(kBulkMargin) && has_failed_)) return false;
  Bulk bulk{at_, end_, memo_, stack_, containers_, most_stack_, most_memo_, most_containers_};
  sink_.on_bulk(bulk);
  const bool has_read = bulk.at != at_;
  at_ = bulk.at;
  return has_read;
}

Result<Value> Machine::run() {
  const auto failed = [this] { return tl::make_unexpected(std::move(error_)); };
  const bool has_head = has(2);
  if (has_failed_) return failed();
  if (!has_head || static_cast<std::uint8_t>(*at_) != static_cast<std::uint8_t>(Opcode::kProto))
    return bad_input("byte 0: no PROTO opcode; wanted a pickle of protocol 2 to 5");
  const auto protocol = static_cast<std::uint8_t>(at_[1]);
  if (protocol < 2 || protocol > 5) {
    fail(fmt::format("protocol {}; wanted 2 to 5", protocol));
    return failed();
  }
  at_ += 2;
  while (!stopped_) {
    opcode_at_ = at_;
    if (at_ == end_ && !more(1)) {
      if (has_failed_) return failed();
      return bad_input(fmt::format("byte {}: the pickle ends; wanted an opcode or STOP", offset(at_)));
    }
    if (*at_ == static_cast<char>(Opcode::kEmptyDict) && bulk()) continue;
    if (has_failed_) return failed();
    ++at_;
    if (!step()) [[unlikely]]
      return failed();
  }
  return stack_[0];
}

}  // namespace

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "a bool";
    case Kind::kInt:
    case Kind::kUint:
      return "an integer";
    case Kind::kFloat:
      return "a float";
    case Kind::kString:
      return "a string";
    case Kind::kBytes:
      return "bytes";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kList:
      return "a list";
    case Kind::kDict:
      return "a dict";
  }
  return "nothing";
}

Result<Value> read_pickle(Window& input, PickleSink& sink, const PickleLimits& limits) {
  return Machine(input, sink, limits).run();
}

Result<Value> read_pickle(std::string_view bytes, PickleSink& sink, const PickleLimits& limits) {
  Window input(bytes);
  return read_pickle(input, sink, limits);
}

}  // namespace plimsoll::snapshot
