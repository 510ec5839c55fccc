// SPDX-License-Identifier: Apache-2.0
// A table from content to a small number. The content lies with the caller; the table holds numbers and
// hashes only. A chain of equal hashes is cut off, so that crafted input cannot make look-ups quadratic.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::snapshot {

[[nodiscard]] inline std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29);
}

[[nodiscard]] inline std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = mix(0x51ed270b35a1f0c7ULL, text.size());
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    hash = mix(hash, word);
  }
  std::uint64_t tail = 0;
  for (std::size_t i = 0; i < left; ++i) tail = (tail << 8) | static_cast<unsigned char>(at[i]);
  return mix(hash, tail);
}

class InternTable {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;  // the chain is too long

  // The number whose content equals, by `equals(number)`; `next` when there is none, which is then entered.
  template <class Equals>
  [[nodiscard]] std::uint32_t find_or_enter(std::uint64_t hash, std::uint32_t next, Equals&& equals) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    const auto tag = static_cast<std::uint32_t>(hash ^ (hash >> 32));
    std::size_t at = tag & (slots_.size() - 1);
    for (int probe = 0; probe < kLongestChain; ++probe, at = (at + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[at];
      if (slot.number == kNone) {
        slot = {tag, next};
        ++used_;
        return next;
      }
      if (slot.tag == tag && equals(slot.number)) return slot.number;
    }
    return kNone;
  }

  [[nodiscard]] std::size_t held_bytes() const { return slots_.size() * sizeof(Slot); }

 private:
  struct Slot {
    std::uint32_t tag = 0;  // of the hash; also says where the entry belongs
    std::uint32_t number = kNone;
  };
  static constexpr int kLongestChain = 4096;

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 256 : slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.number == kNone) continue;
      std::size_t at = slot.tag & (slots_.size() - 1);
      while (slots_[at].number != kNone) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

}  // namespace plimsoll::snapshot
