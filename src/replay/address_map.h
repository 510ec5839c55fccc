// SPDX-License-Identifier: Apache-2.0
// From the address of a live block to a number. Open addressing with linear probing; an erased slot is closed by
// moving later ones up, so that a long history of births and deaths leaves nothing behind.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace plimsoll::replay {

class AddressMap {
 public:
  static constexpr std::uint32_t kAbsent = 0xffffffff;

  AddressMap() : slots_(1024) {}

  [[nodiscard]] std::uint32_t find(std::uint64_t address) const {
    for (std::size_t at = home(address);; at = (at + 1) & mask()) {
      if (slots_[at].number == kAbsent) return kAbsent;
      if (slots_[at].address == address) return slots_[at].number;
    }
  }

  // The address is not in the map; the number is not kAbsent.
  void insert(std::uint64_t address, std::uint32_t number) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    std::size_t at = home(address);
    while (slots_[at].number != kAbsent) at = (at + 1) & mask();
    slots_[at] = {address, number};
    ++size_;
  }

  // The address is in the map.
  void erase(std::uint64_t address) {
    std::size_t hole = home(address);
    while (slots_[hole].address != address) hole = (hole + 1) & mask();
    for (std::size_t at = (hole + 1) & mask(); slots_[at].number != kAbsent; at = (at + 1) & mask()) {
      // A slot may fill the hole unless its home lies cyclically after the hole.
      if (((at - home(slots_[at].address)) & mask()) >= ((at - hole) & mask())) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = {};
    --size_;
  }

  [[nodiscard]] std::size_t size() const { return size_; }

  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Slot& slot : slots_)
      if (slot.number != kAbsent) visit(slot.address, slot.number);
  }

 private:
  struct Slot {
    std::uint64_t address = 0;
    std::uint32_t number = kAbsent;
  };

  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }
  [[nodiscard]] std::size_t home(std::uint64_t address) const {
    const std::uint64_t hash = (address >> 9) * 0x9e3779b97f4a7c15ULL;  // blocks lie on multiples of 512
    return static_cast<std::size_t>(hash >> 20) & mask();
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    size_ = 0;
    for (const Slot& slot : old)
      if (slot.number != kAbsent) insert(slot.address, slot.number);
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace plimsoll::replay
