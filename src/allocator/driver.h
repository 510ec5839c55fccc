// SPDX-License-Identifier: Apache-2.0
// What the caching allocator asks of the device below it. Here the device is simulated; a real driver
// can stand behind the same interface.
#pragma once

#include <cstdint>
#include <optional>

namespace plimsoll::allocator {

using Address = std::uint64_t;

class Driver {
 public:
  virtual ~Driver() = default;
  // cudaMalloc: nothing when the device has too little left.
  virtual std::optional<Address> allocate(std::int64_t bytes) = 0;
  virtual void release(Address address, std::int64_t bytes) = 0;
  // cuMemAddressReserve: address space only, always succeeds here.
  virtual Address reserve_range(std::int64_t bytes) = 0;
  // cuMemCreate and cuMemMap of physical memory; false when the device has too little left.
  virtual bool map(std::int64_t bytes) = 0;
  virtual void unmap(std::int64_t bytes) = 0;
  [[nodiscard]] virtual std::int64_t total() const = 0;
};

// A device with so many bytes, `capacity` of which are left for this process. Addresses grow and are never reused, so
// that ties in size go to the older segment; a real device may choose otherwise.
class SimulatedDriver final : public Driver {
 public:
  explicit SimulatedDriver(std::int64_t capacity) : SimulatedDriver(capacity, capacity) {}
  SimulatedDriver(std::int64_t capacity, std::int64_t total) : total_(total), free_(capacity) {}

  std::optional<Address> allocate(std::int64_t bytes) override {
    if (bytes > free_) return std::nullopt;
    free_ -= bytes;
    return reserve_range(bytes);
  }
  void release(Address, std::int64_t bytes) override { free_ += bytes; }
  Address reserve_range(std::int64_t bytes) override {
    const Address address = next_;
    next_ += static_cast<Address>((bytes + kAlignment - 1) / kAlignment * kAlignment);
    return address;
  }
  bool map(std::int64_t bytes) override {
    if (bytes > free_) return false;
    free_ -= bytes;
    return true;
  }
  void unmap(std::int64_t bytes) override { free_ += bytes; }
  [[nodiscard]] std::int64_t total() const override { return total_; }
  [[nodiscard]] std::int64_t free_bytes() const { return free_; }

 private:
  static constexpr std::int64_t kAlignment = 32 << 20;
  std::int64_t total_;
  std::int64_t free_;
  Address next_ = 0x7f0000000000;
};

}  // namespace plimsoll::allocator
