// SPDX-License-Identifier: Apache-2.0
#include "allocator/address_space.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/bytes.h"

namespace plimsoll::allocator {
namespace {

constexpr Address kMi = Address{1} << 20;

// Without the holes that a process begins with: nothing is left of them.
AddressSpace filled() {
  AddressSpace space;
  (void)space.place(404 * kMiB);
  (void)space.place(2 * kMiB);
  (void)space.place(22 * kMiB);
  return space;
}

TEST(AddressSpace, small_segments_rise_through_the_first_hole) {
  AddressSpace space;
  const Address first = space.place(2 * kMiB);
  const Address second = space.place(20 * kMiB);
  const Address third = space.place(44 * kMiB);
  EXPECT_EQ(third, second + 20 * kMi);
  EXPECT_EQ(first, second + 404 * kMi) << "the first 2 MiB end the hole";
}

TEST(AddressSpace, regions_of_32_mib_fall_and_what_is_left_of_them_is_filled_first) {
  AddressSpace space = filled();
  const Address high = space.place(44 * kMiB);
  const Address low = space.place(44 * kMiB);
  EXPECT_EQ(low, high - 64 * kMi);
  EXPECT_EQ(space.place(20 * kMiB), low + 44 * kMi) << "the lowest hole that is large enough";
  EXPECT_EQ(space.place(16 * kMiB), high + 44 * kMi);
  EXPECT_EQ(space.place(16 * kMiB), low - 32 * kMi);
}

TEST(AddressSpace, regions_that_were_given_back_are_taken_again_from_the_top) {
  AddressSpace space = filled();
  const Address high = space.place(44 * kMiB);
  const Address low = space.place(64 * kMiB);
  const Address kept = space.place(32 * kMiB);
  space.give_back(low, 64 * kMiB);
  space.give_back(high, 44 * kMiB);
  EXPECT_EQ(space.place(32 * kMiB), high + 32 * kMi);
  EXPECT_EQ(space.place(96 * kMiB), low) << "the two regions are one range again";
  EXPECT_LT(space.place(32 * kMiB), kept);
}

TEST(AddressSpace, nothing_lies_on_anything_else_over_20000_requests) {
  constexpr std::int64_t kSizes[] = {2, 2, 12, 16, 20, 22, 44, 60, 64, 126, 500};
  std::mt19937 random(7);
  AddressSpace space;
  std::map<Address, std::int64_t> live;
  for (int i = 0; i < 20'000; ++i) {
    if (!live.empty() && random() % 100 < (live.size() < 200 ? 30U : 70U)) {
      const auto which = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      space.give_back(which->first, which->second);
      live.erase(which);
      continue;
    }
    const std::int64_t bytes = kSizes[random() % std::size(kSizes)] * kMiB;
    const Address address = space.place(bytes);
    const auto next = live.lower_bound(address);
    ASSERT_TRUE(next == live.end() || address + static_cast<Address>(bytes) <= next->first) << i;
    ASSERT_TRUE(next == live.begin() ||
                std::prev(next)->first + static_cast<Address>(std::prev(next)->second) <= address)
        << i;
    live.emplace(address, bytes);
  }
}

}  // namespace
}  // namespace plimsoll::allocator
