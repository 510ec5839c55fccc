// SPDX-License-Identifier: Apache-2.0
// The allocator against a plain one that searches every block: same addresses, same bytes, request by request. The
// allocator changes free blocks where they stand when it can; this one knows no such shortcut.
#include <cstdint>
#include <iterator>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "allocator/caching.h"

namespace plimsoll::allocator {
namespace {

// Best fit over segments of cudaMalloc, by the rules of facts pytorch-allocator.md 3 to 6, without a limit.
class PlainAllocator {
 public:
  explicit PlainAllocator(Driver& driver) : driver_(driver) {}

  Address allocate(std::int64_t bytes, std::uint32_t stream) {
    const std::int64_t size = std::max<std::int64_t>(kMinBlock, (bytes + 511) / 512 * 512);
    const bool small = size <= kSmallSize;
    auto found = blocks_.end();
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
      const Piece& piece = it->second;
      if (!piece.free || piece.stream != stream || piece.small != small || piece.size < size) continue;
      if (found == blocks_.end() || piece.size < found->second.size) found = it;  // addresses ascend
    }
    if (found == blocks_.end()) {
      const std::int64_t whole = small                   ? kSmallSegment
                                 : size < kMinLargeAlloc ? 20 << 20
                                                         : (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
      found = blocks_.emplace(driver_.allocate(whole).value(), Piece{whole, stream, small, true, ++segments_}).first;
      reserved += whole;
    }
    const std::int64_t rest = found->second.size - size;
    if (small ? rest >= kMinBlock : rest > kSmallSize) {
      Piece behind = found->second;
      behind.size = rest;
      found->second.size = size;
      blocks_.emplace(found->first + static_cast<Address>(size), behind);
    }
    found->second.free = false;
    return found->first;
  }

  void free(Address address) {
    auto it = blocks_.find(address);
    it->second.free = true;
    if (const auto next = std::next(it); joins(it, next)) {
      it->second.size += next->second.size;
      blocks_.erase(next);
    }
    if (it == blocks_.begin()) return;
    if (const auto before = std::prev(it); joins(before, it)) {
      before->second.size += it->second.size;
      blocks_.erase(it);
    }
  }

  std::int64_t reserved = 0;

 private:
  struct Piece {
    std::int64_t size;
    std::uint32_t stream;
    bool small;
    bool free;
    int segment;
  };
  using Blocks = std::map<Address, Piece>;
  bool joins(Blocks::iterator a, Blocks::iterator b) const {
    return b != blocks_.end() && a->second.free && b->second.free && a->second.segment == b->second.segment;
  }

  Driver& driver_;
  Blocks blocks_;
  int segments_ = 0;
};

// A few sizes that come again and again, as in a training step, and now and then any other.
std::int64_t a_size(std::mt19937& random) {
  constexpr std::int64_t kUsual[] = {512, 4096, 8192 + 1, 65536, 3 << 20, 12 << 20, 16 << 20, 28 << 20};
  return random() % 4 != 0 ? kUsual[random() % std::size(kUsual)]
                           : 1 + static_cast<std::int64_t>(random() % (40 << 20));
}

TEST(PlainAllocator, gives_the_same_addresses_over_20000_requests) {
  for (const Placement placement : {Placement::kAscending, Placement::kAsSeen}) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
      std::mt19937 random(seed);
      constexpr std::int64_t kEndless = std::int64_t{1} << 55;
      SimulatedDriver driver(kEndless, kEndless, placement);
      SimulatedDriver plain_driver(kEndless, kEndless, placement);
      CachingAllocator allocator(Settings{}, driver);
      PlainAllocator plain(plain_driver);
      const std::uint32_t streams[] = {0, allocator.add_stream(7)};
      std::vector<BlockId> live;
      for (int i = 0; i < 20'000; ++i) {
        if (!live.empty() && random() % 100 < (live.size() < 150 ? 30U : 70U)) {
          const std::size_t which = random() % live.size();
          plain.free(allocator.address(live[which]));
          allocator.free(live[which]);
          live[which] = live.back();
          live.pop_back();
          continue;
        }
        const std::int64_t bytes = a_size(random);
        const std::uint32_t stream = streams[random() % 8 == 0 ? 1 : 0];
        live.push_back(allocator.allocate({bytes, stream}).value());
        ASSERT_EQ(allocator.address(live.back()), plain.allocate(bytes, stream))
            << "seed " << seed << ", request " << i;
        ASSERT_EQ(allocator.stats().reserved, plain.reserved);
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::allocator
