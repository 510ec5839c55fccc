// SPDX-License-Identifier: Apache-2.0
// What the caching allocator asks of the device below it. Here the device is simulated; a real driver
// can stand behind the same interface.
#pragma once

#include <cstdint>
#include <optional>

#include "allocator/address_space.h"

namespace plimsoll::allocator {

// From here on an address says that a range is reserved, but where is not known (yet).
inline constexpr Address kUnplaced = Address{1} << 63;

class Driver {
 public:
  virtual ~Driver() = default;
  // cudaMalloc: nothing when the device has too little left.
  virtual std::optional<Address> allocate(std::int64_t bytes) = 0;
  virtual void release(Address address, std::int64_t bytes) = 0;
  // cuMemAddressReserve: address space only, always succeeds here.
  virtual Address reserve_range(std::int64_t bytes) = 0;
  virtual void drop_range(Address address, std::int64_t bytes) = 0;
  // cuMemCreate and cuMemMap of physical memory at an address of a range; false, and nothing mapped, when the
  // device has too little left.
  virtual bool map(Address address, std::int64_t bytes) = 0;
  virtual void unmap(Address address, std::int64_t bytes) = 0;
  // Bytes of the whole device; the memory fraction is a share of it.
  [[nodiscard]] virtual std::int64_t total() const = 0;
};

// Where a new segment comes to lie decides ties between free blocks of one size, and no setting fixes it. How far
// an answer depends on it is seen by asking twice: as the driver was seen to do it, and each above the one before.
enum class Placement : std::uint8_t { kAscending, kAsSeen };

// A device with so many bytes, `capacity` of which are left for this process.
class SimulatedDriver final : public Driver {
 public:
  explicit SimulatedDriver(std::int64_t capacity) : SimulatedDriver(capacity, capacity) {}
  SimulatedDriver(std::int64_t capacity, std::int64_t total, Placement placement = Placement::kAsSeen)
      : total_(total), free_(capacity), placement_(placement) {}

  std::optional<Address> allocate(std::int64_t bytes) override {
    if (bytes > free_) return std::nullopt;
    free_ -= bytes;
    return placement_ == Placement::kAsSeen ? space_.place(bytes) : place_above(bytes);
  }
  void release(Address address, std::int64_t bytes) override {
    free_ += bytes;
    if (placement_ == Placement::kAsSeen) space_.give_back(address, bytes);
  }
  Address reserve_range(std::int64_t bytes) override {
    return placement_ == Placement::kAsSeen ? space_.place_alone(bytes) : place_above(bytes);
  }
  void drop_range(Address, std::int64_t) override {}
  bool map(Address, std::int64_t bytes) override {
    if (bytes > free_) return false;
    free_ -= bytes;
    return true;
  }
  void unmap(Address, std::int64_t bytes) override { free_ += bytes; }
  [[nodiscard]] std::int64_t total() const override { return total_; }
  [[nodiscard]] std::int64_t free_bytes() const { return free_; }

 private:
  static constexpr std::int64_t kAlignment = 32 << 20;

  Address place_above(std::int64_t bytes) {
    const Address address = next_;
    next_ += static_cast<Address>((bytes + kAlignment - 1) / kAlignment * kAlignment);
    return address;
  }

  std::int64_t total_;
  std::int64_t free_;
  Placement placement_;
  Address next_ = 0x7f0000000000;
  AddressSpace space_;
};

}  // namespace plimsoll::allocator
