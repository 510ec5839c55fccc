// SPDX-License-Identifier: Apache-2.0
// What nearly every event of a file repeats, so that the next can be recognised with a few comparisons: the bytes of
// its keys, which are references to the memo, and the strings that writers put down anew in every event.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "snapshot/keys.h"
#include "snapshot/memo.h"
#include "snapshot/snapshot.h"

namespace plimsoll::snapshot {

struct EventShape {
  struct Field {
    std::uint64_t bytes = 0;  // BINGET or LONG_BINGET of the key, as it stands in the file
    std::uint64_t mask = 0;   // of the bytes that count
    std::uint8_t length = 0;
    Key key = Key::kUnknown;

    // An integer that has the same width in nearly every event: the key and what stands before the integer's bytes.
    std::uint64_t integer_bytes = 0;
    std::uint64_t integer_mask = 0;
    std::uint8_t integer_at = 0;      // from the key's first byte
    std::uint8_t integer_unused = 0;  // bits of a 64-bit word
    std::uint8_t integer_end = 0;
  };
  static constexpr std::size_t kMostFields = 12;

  std::array<Field, kMostFields> fields{};
  std::size_t count = 0;  // 0 until a shape was learnt
};

// A short string that may stand again in the next event, written anew.
struct Literal {
  static constexpr std::size_t kLongest = 64;

  std::array<char, kLongest> text{};
  std::uint32_t length = kTooLong;
  std::uint32_t string = kNoString;
  std::uint64_t first = 0;  // the first bytes of the text, and which of them count
  std::uint64_t mask = 0;

  // Whether the text of that length stands at `at`, from where kLongest bytes can be read.
  [[nodiscard]] bool stands_at(const char* at, std::uint32_t its_length) const {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    if (its_length != length || ((word ^ first) & mask) != 0) return false;
    return length <= sizeof word || std::memcmp(at, text.data(), length) == 0;
  }
  void set(std::string_view known, std::uint32_t id) {
    if (string == id) return;
    string = id;
    length = known.size() <= kLongest ? static_cast<std::uint32_t>(known.size()) : kTooLong;
    if (length == kTooLong) return;
    text.fill('\0');
    std::memcpy(text.data(), known.data(), known.size());
    mask = length >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * length)) - 1;
    std::memcpy(&first, text.data(), sizeof first);
  }

 private:
  static constexpr std::uint32_t kTooLong = 0xffffffff;
};

// An event as it was decoded, before anything is changed. Keys that its shape lacks keep their first values.
struct RawEvent {
  static constexpr std::size_t kMostPuts = Memo::kMostAtOnce;

  void restart() {
    has_list = false;
    put_count = 0;
  }

  std::uint32_t action = kNoString;
  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::uint64_t stream = 0;
  std::int64_t time_us = kNoTime;
  std::uint32_t stack = kNoStack;
  std::uint32_t compile_context = kNoString;
  std::uint32_t user_metadata = kNoString;
  PoolId pool;
  bool has_list = false;  // of frames, created by this event
  std::size_t put_count = 0;
  std::array<Memo::Entry, kMostPuts> puts;  // memo entries that it appends
};

// Rows that wait to be entered in the columns together.
struct EventRows {
  static constexpr std::size_t kMost = 256;

  std::array<Action, kMost> action;
  std::array<std::uint64_t, kMost> address;
  std::array<std::int64_t, kMost> size;
  std::array<std::uint32_t, kMost> stream;
  std::array<std::int64_t, kMost> time_us;
  std::array<std::uint32_t, kMost> stack;
  std::size_t count = 0;

  void move_to(Events& events) {
    const auto append = [this](auto& column, const auto& rows) {
      column.insert(column.end(), rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count));
    };
    append(events.action, action);
    append(events.address, address);
    append(events.size, size);
    append(events.stream, stream);
    append(events.time_us, time_us);
    append(events.stack, stack);
    count = 0;
  }
};

}  // namespace plimsoll::snapshot
