// SPDX-License-Identifier: Apache-2.0
// The pickle memo: what was stored under a number, for later references. Four bytes per entry, three bits of kind
// and 29 of number, since a long history has tens of millions of entries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "snapshot/pod_array.h"

namespace plimsoll::snapshot {

enum class Slot : std::uint32_t { kEmpty, kString, kTuple, kList, kDict, kScalar };

class Memo {
 public:
  static constexpr std::uint32_t kNumberBits = 29;
  static constexpr std::uint32_t kMostNumber = (1U << kNumberBits) - 1;

  struct Entry {
    std::uint32_t bits = 0;

    [[nodiscard]] Slot slot() const { return static_cast<Slot>(bits >> kNumberBits); }
    [[nodiscard]] std::uint32_t number() const { return bits & kMostNumber; }
  };
  [[nodiscard]] static Entry entry(Slot slot, std::uint32_t number) {
    return {(static_cast<std::uint32_t>(slot) << kNumberBits) | number};
  }

  // Slot::kEmpty for a number under which nothing was stored.
  [[nodiscard]] Entry get(std::size_t at) const { return at < entries_.size() ? entries_[at] : Entry{}; }
  void put(std::size_t at, Entry entry) {
    if (at >= entries_.size()) entries_.resize(at + 1);
    if (entries_[at].bits == 0) ++used_;
    entries_[at] = entry;
  }
  // Under the numbers that come next; only while is_dense(), and after make_room() for kMostAtOnce. All of the array is
  // copied, whatever the count: a loop of two or three would cost more.
  static constexpr std::size_t kMostAtOnce = 6;
  void append(const std::array<Entry, kMostAtOnce>& entries, std::size_t count) {
    std::memcpy(entries_.data() + entries_.size(), entries.data(), sizeof entries);
    entries_.grow_by(count);
    used_ += count;
  }
  void make_room(std::size_t more) { entries_.make_room(more); }

  // How many are stored: what MEMOIZE numbers by.
  [[nodiscard]] std::size_t used() const { return used_; }
  // Whether the numbers in use are 0, 1, 2... without a gap.
  [[nodiscard]] bool is_dense() const { return used_ == entries_.size(); }
  [[nodiscard]] std::size_t held_bytes() const { return entries_.size() * sizeof(Entry); }

 private:
  PodArray<Entry> entries_;
  std::size_t used_ = 0;
};

}  // namespace plimsoll::snapshot
