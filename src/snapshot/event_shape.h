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
  };
  static constexpr std::size_t kMostFields = 12;

  std::array<Field, kMostFields> fields{};
  std::size_t count = 0;  // 0 until a shape was learnt
};

// A short string as SHORT_BINUNICODE writes it, without what follows it.
struct Literal {
  static constexpr std::size_t kLongest = 62;

  std::array<char, kLongest + 2> bytes{};
  std::size_t length = 0;  // of the bytes; 0 for a string that is too long
  std::uint32_t string = kNoString;

  void set(std::string_view text, std::uint32_t id) {
    if (string == id) return;
    string = id;
    length = 0;
    if (text.size() > kLongest) return;
    bytes[0] = '\x8c';
    bytes[1] = static_cast<char>(text.size());
    std::memcpy(bytes.data() + 2, text.data(), text.size());
    length = text.size() + 2;
  }
};

// An event as it was decoded, before anything is changed.
struct RawEvent {
  static constexpr std::size_t kMostPuts = 6;

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

}  // namespace plimsoll::snapshot
