// SPDX-License-Identifier: Apache-2.0
// A bounded reader of pickles (protocols 2 to 5) that builds no objects. Scalars are values, strings are
// interned ids, containers are numbers; what a container holds is told to a sink when it is filled, so a
// record can be folded into a column and forgotten. Opcodes that carry code are refused by name.
// Invariant: memory stays within a fixed part of the input's size and a spare, whatever the input is.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "snapshot/memo.h"
#include "snapshot/window.h"

namespace plimsoll::snapshot {

enum class Kind : std::uint8_t { kNone, kBool, kInt, kUint, kFloat, kString, kBytes, kTuple, kList, kDict };

// "a string", for messages.
[[nodiscard]] std::string_view kind_name(Kind kind);

// kInt holds every integer that fits int64_t; kUint only those from 2^63 to 2^64 - 1.
struct Value {
  Kind kind = Kind::kNone;
  std::uint32_t id = 0;   // of a string, tuple, list or dict
  std::int64_t bits = 0;  // of a bool, integer or float

  [[nodiscard]] double real() const { return std::bit_cast<double>(bits); }
  [[nodiscard]] std::uint64_t unsigned_bits() const { return static_cast<std::uint64_t>(bits); }
};

// The machine as a sink sees it that reads whole records by itself: the cursor lies on an EMPTY_DICT. The sink may
// move it behind records, doing what the opcodes in between do: values pushed, containers counted, memo entries
// appended. It leaves everything as it is where a record is not what it expects or a limit is near.
struct Bulk {
  const char* at;
  const char* end;  // nothing may be read from here on
  Memo& memo;
  PodArray<Value>& stack;
  std::uint32_t& containers;
  std::size_t most_stack;
  std::size_t most_memo;
  std::size_t most_containers;
};

// Lists and dicts share one numbering, 0, 1, 2... in order of creation; so do strings, by content.
class PickleSink {
 public:
  virtual ~PickleSink() = default;
  // A string that was not seen before. The sink keeps a copy, for text().
  virtual Status on_string(std::uint32_t id, std::string_view text) = 0;
  [[nodiscard]] virtual std::string_view text(std::uint32_t id) const = 0;
  // The number that the tuple's value shall carry.
  virtual Result<std::uint32_t> on_tuple(std::span<const Value> items) = 0;
  virtual Status on_append(std::uint32_t list, std::span<const Value> items) = 0;
  // Key, value, key, value...; the length is even.
  virtual Status on_set_items(std::uint32_t dict, std::span<const Value> pairs) = 0;
  virtual void on_bulk(Bulk& /*bulk*/) {}
  // Memory that the sink has filled so far, and how much it may fill: more as more of a stream is read.
  [[nodiscard]] virtual std::size_t held_bytes() const { return 0; }
  virtual void set_budget(std::size_t /*bytes*/) {}
};

// A count may reach `spare` plus one per so many bytes of input: a true snapshot holds a container and two
// memo entries per 40 bytes at most (facts snapshot-format.md 5). All memory together may reach `spare_bytes` plus
// `held_percent` of the input, which is not held itself; a true snapshot needs 60, or 130 when
// every event carries metadata.
struct PickleLimits {
  std::size_t spare = 1U << 20;
  std::size_t spare_bytes = 64U << 20;
  std::size_t held_percent = 140;
  std::size_t bytes_per_stack_entry = 32;
  std::size_t bytes_per_memo_entry = 4;
  std::size_t bytes_per_container = 8;
  std::size_t bytes_per_string = 64;
  std::size_t spare_strings = 1U << 18;
  std::size_t longest_string = 16U << 20;
  std::size_t all_strings = 64U << 20;  // bytes of distinct strings
  std::size_t deepest_mark = 1000;
  bool allows_bulk = true;  // whether the sink may read whole records; the result is the same either way
};

// Reads one pickle that fills the input and returns its root. Errors name the byte, the opcode, what was wanted.
[[nodiscard]] Result<Value> read_pickle(Window& input, PickleSink& sink, const PickleLimits& limits = {});
[[nodiscard]] Result<Value> read_pickle(std::string_view bytes, PickleSink& sink, const PickleLimits& limits = {});

}  // namespace plimsoll::snapshot
