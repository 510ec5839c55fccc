// SPDX-License-Identifier: Apache-2.0
#include "allocator/address_space.h"

#include <algorithm>
#include <iterator>

#include "base/checked.h"

namespace plimsoll::allocator {

namespace {

constexpr Address kTop = Address{1} << 62;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// What a process finds once its first kernels are loaded: the driver's own region with a large hole, at whose end the
// first 2 MiB of PyTorch lie, and a small hole at the very top.
constexpr std::int64_t kTopHole = 22 * kMiB;
constexpr std::int64_t kFirstRegion = 416 * kMiB;
constexpr std::int64_t kFirstOwn = 10 * kMiB;  // at its beginning

Address below(Address address, std::int64_t bytes) { return address - static_cast<Address>(bytes); }
Address above(Address address, std::int64_t bytes) { return address + static_cast<Address>(bytes); }

}  // namespace

std::size_t AddressSpace::class_of(std::int64_t bytes) {
  return std::min(static_cast<std::size_t>(bytes / kPage), kClasses - 1);
}

void AddressSpace::begin() {
  has_begun_ = true;
  lowest_ = below(kTop, kFirstRegion + 4 * kRegion);
  add_hole(below(kTop, kTopHole), kTopHole);
  add_hole(above(lowest_, kFirstOwn), kFirstRegion - kFirstOwn);
}

Address AddressSpace::place(std::int64_t bytes) {
  bytes = round_up(bytes, kPage);
  if (!has_begun_) {
    begin();
    if (bytes == kPage) {
      const Address first = above(lowest_, kFirstRegion - kPage);
      remove_hole(above(lowest_, kFirstOwn), kFirstRegion - kFirstOwn);
      add_hole(above(lowest_, kFirstOwn), kFirstRegion - kFirstOwn - kPage);
      return first;
    }
  }
  const auto* lowest = static_cast<const Address*>(nullptr);
  for (std::size_t i = class_of(bytes); i + 1 < kClasses; ++i)
    if (!by_size_[i].empty() && (lowest == nullptr || *by_size_[i].begin() < *lowest)) lowest = &*by_size_[i].begin();
  for (const Address& hole : by_size_.back()) {
    if (lowest != nullptr && hole > *lowest) break;
    if (holes_.at(hole) < bytes) continue;
    lowest = &hole;
    break;
  }
  if (lowest == nullptr) return take_region(bytes);
  const Address address = *lowest;
  const std::int64_t room = holes_.at(address);
  remove_hole(address, room);
  if (room > bytes) add_hole(above(address, bytes), room - bytes);
  return address;
}

Address AddressSpace::place_alone(std::int64_t bytes) {
  if (!has_begun_) begin();
  return lowest_ = below(lowest_, round_up(bytes, kRegion));
}

Address AddressSpace::take_region(std::int64_t bytes) {
  const std::int64_t size = round_up(bytes, kRegion);
  Address address = 0;
  const auto found =
      std::find_if(free_.rbegin(), free_.rend(), [size](const auto& range) { return range.second >= size; });
  if (found != free_.rend()) {
    found->second -= size;
    address = above(found->first, found->second);
    if (found->second == 0) free_.erase(std::next(found).base());
  } else {
    address = lowest_ = below(lowest_, size);
  }
  regions_.emplace(address, size);
  if (size > bytes) add_hole(above(address, bytes), size - bytes);
  return address;
}

void AddressSpace::give_back(Address address, std::int64_t bytes) {
  bytes = round_up(bytes, kPage);
  auto region = regions_.upper_bound(address);
  const bool is_in_region =
      region != regions_.begin() && address < above(std::prev(region)->first, std::prev(region)->second);
  // A hole joins its neighbours of the same region; those of the driver's own regions join any.
  const Address first = is_in_region ? std::prev(region)->first : 0;
  const Address last = is_in_region ? above(first, std::prev(region)->second) : ~Address{0};
  if (const auto next = holes_.find(above(address, bytes)); next != holes_.end() && next->first < last) {
    const std::int64_t more = next->second;
    remove_hole(next->first, more);
    bytes += more;
  }
  if (auto before = holes_.lower_bound(address); before != holes_.begin()) {
    --before;
    if (before->first >= first && above(before->first, before->second) == address) {
      address = before->first;
      const std::int64_t more = before->second;
      remove_hole(address, more);
      bytes += more;
    }
  }
  if (!is_in_region || bytes < std::prev(region)->second) return add_hole(address, bytes);
  regions_.erase(std::prev(region));
  give_region_back(address, bytes);
}

void AddressSpace::give_region_back(Address address, std::int64_t bytes) {
  if (const auto next = free_.find(above(address, bytes)); next != free_.end()) {
    bytes += next->second;
    free_.erase(next);
  }
  if (auto before = free_.lower_bound(address); before != free_.begin()) {
    --before;
    if (above(before->first, before->second) == address) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(address, bytes);
}

void AddressSpace::add_hole(Address address, std::int64_t bytes) {
  holes_.emplace(address, bytes);
  by_size_[class_of(bytes)].insert(address);
}

void AddressSpace::remove_hole(Address address, std::int64_t bytes) {
  holes_.erase(address);
  by_size_[class_of(bytes)].erase(address);
}

}  // namespace plimsoll::allocator
