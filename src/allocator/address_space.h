// SPDX-License-Identifier: Apache-2.0
// Where CUDA's driver puts what cudaMalloc hands out. Which of two free blocks of one size is taken is decided by their
// addresses, so what PyTorch reserves depends on this. Read off 68 recorded runs on an H200 (driver 580, 7,000
// segments; facts pytorch-allocator/driver.md): the driver takes address space in regions of whole 32 MiB, the highest
// free one first, puts the allocation at the region's beginning, and fills what is left of regions first, from the
// lowest address on. What it needs itself (kernels that are loaded) lies among them and is not simulated.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>

namespace plimsoll::allocator {

using Address = std::uint64_t;

class AddressSpace {
 public:
  // A place for so many bytes; there is always one.
  [[nodiscard]] Address place(std::int64_t bytes);
  // A place of its own, which is never shared nor given back: a range for an expandable segment.
  [[nodiscard]] Address place_alone(std::int64_t bytes);
  void give_back(Address address, std::int64_t bytes);

 private:
  static constexpr std::int64_t kPage = std::int64_t{2} << 20;
  static constexpr std::int64_t kRegion = std::int64_t{32} << 20;
  static constexpr std::size_t kClasses = kRegion / kPage + 1;  // holes by whole pages; the last: a region and more

  void begin();
  Address take_region(std::int64_t bytes);
  void give_region_back(Address address, std::int64_t bytes);
  void add_hole(Address address, std::int64_t bytes);
  void remove_hole(Address address, std::int64_t bytes);
  [[nodiscard]] static std::size_t class_of(std::int64_t bytes);

  bool has_begun_ = false;
  Address lowest_ = 0;                               // below it nothing was taken yet
  std::map<Address, std::int64_t> regions_;          // taken: where they begin, and their bytes
  std::map<Address, std::int64_t> free_;             // regions that were given back, neighbours joined
  std::map<Address, std::int64_t> holes_;            // in regions that are taken
  std::array<std::set<Address>, kClasses> by_size_;  // the same, by whole pages
};

}  // namespace plimsoll::allocator
