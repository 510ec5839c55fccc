// SPDX-License-Identifier: Apache-2.0
// A device whose calls can be read afterwards. Segments are numbered in the order they were taken, so that
// a test can say which one went back.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocator/caching.h"
#include "allocator/driver.h"
#include "allocator/settings.h"
#include "base/bytes.h"

namespace plimsoll::allocator::test {

class WatchedDriver final : public Driver {
 public:
  explicit WatchedDriver(std::int64_t capacity = 80 * kGiB) : device_(capacity) {}

  std::optional<Address> allocate(std::int64_t bytes) override {
    const auto address = device_.allocate(bytes);
    if (!address) return std::nullopt;
    number_[*address] = static_cast<int>(taken.size());  // an address may come again
    taken.push_back(bytes);
    return address;
  }
  void release(Address address, std::int64_t bytes) override {
    device_.release(address, bytes);
    released.push_back(number_.at(address));
  }
  Address reserve_range(std::int64_t bytes) override {
    ranges.push_back(bytes);
    return device_.reserve_range(bytes);
  }
  bool map(Address address, std::int64_t bytes) override {
    if (!device_.map(address, bytes)) return false;
    mapped.push_back(bytes);
    return true;
  }
  void unmap(Address address, std::int64_t bytes) override {
    device_.unmap(address, bytes);
    unmapped.push_back(bytes);
  }
  void drop_range(Address address, std::int64_t bytes) override { device_.drop_range(address, bytes); }
  [[nodiscard]] std::int64_t total() const override { return device_.total(); }

  std::vector<std::int64_t> taken;     // bytes of each segment
  std::vector<int> released;           // numbers of segments
  std::vector<std::int64_t> ranges;    // bytes of each expandable range
  std::vector<std::int64_t> mapped;    // bytes of each map call
  std::vector<std::int64_t> unmapped;  // bytes of each unmap call

 private:
  SimulatedDriver device_;
  std::map<Address, int> number_;
};

inline Settings settings(std::string_view text) {
  auto parsed = parse_settings(text);
  EXPECT_TRUE(parsed) << text << ": " << to_string(parsed.error());
  return parsed ? *std::move(parsed) : Settings{};
}

// An allocator over a device of its own.
struct Machine {
  explicit Machine(std::string_view setting = {}, std::int64_t capacity = 80 * kGiB)
      : driver(capacity), allocator(settings(setting), driver) {}

  CachingAllocator::BlockId take(std::int64_t bytes) {
    const auto block = allocator.allocate(bytes);
    EXPECT_TRUE(block) << "out of memory for " << bytes << " bytes";
    return block.value_or(0);
  }
  [[nodiscard]] std::int64_t reserved() const { return allocator.stats().reserved; }

  WatchedDriver driver;
  CachingAllocator allocator;
};

using Bytes = std::vector<std::int64_t>;

}  // namespace plimsoll::allocator::test
