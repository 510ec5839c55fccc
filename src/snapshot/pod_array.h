// SPDX-License-Identifier: Apache-2.0
// A growing array of plain values that takes new ones without a check once there is room, and grows in place where
// the system can. For tables of tens of millions of entries that are filled one by one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "snapshot/huge_pages.h"

namespace plimsoll::snapshot {

template <class T>
class PodArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PodArray() = default;
  PodArray(const PodArray&) = delete;
  PodArray& operator=(const PodArray&) = delete;
  ~PodArray() { std::free(data_); }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  [[nodiscard]] T& back() { return data_[size_ - 1]; }
  [[nodiscard]] T& operator[](std::size_t at) { return data_[at]; }
  [[nodiscard]] const T& operator[](std::size_t at) const { return data_[at]; }

  // Room for `more` values beyond those that are there.
  void make_room(std::size_t more) {
    if (capacity_ - size_ < more) grow(size_ + more);
  }
  // Needs room.
  void append(T value) { data_[size_++] = value; }
  // Counts values as there that were written behind the last; needs room.
  void grow_by(std::size_t count) { size_ += count; }
  void push_back(T value) {
    make_room(1);
    append(value);
  }
  void pop_back() { --size_; }
  // New values are T{}.
  void resize(std::size_t size) {
    if (size > size_) {
      make_room(size - size_);
      std::fill(data_ + size_, data_ + size, T{});
    }
    size_ = size;
  }

 private:
  void grow(std::size_t least) {
    const std::size_t capacity = std::max({least, capacity_ + capacity_ / 2, std::size_t{1024}});
    void* const moved = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(moved);
    capacity_ = capacity;
    prefer_huge_pages(data_, capacity * sizeof(T));
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace plimsoll::snapshot
