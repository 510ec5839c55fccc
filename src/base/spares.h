// SPDX-License-Identifier: Apache-2.0
// Values whose room is used again: a walk needs megabytes for some milliseconds, and fresh ones cost a page fault each
// 4 KiB. Whoever takes one has it alone; what it held before is still in it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace plimsoll {

template <class T>
class Spares {
 public:
  // No more than this many wait; the rest is freed.
  explicit Spares(std::size_t most) : most_(most) { waiting_.reserve(most); }

  class Borrowed {
   public:
    Borrowed(Spares& from, std::unique_ptr<T> value) : from_(from), value_(std::move(value)) {}
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    ~Borrowed() { from_.give_back(std::move(value_)); }
    T& operator*() { return *value_; }

   private:
    Spares& from_;
    std::unique_ptr<T> value_;
  };

  Borrowed borrow() { return Borrowed(*this, take()); }

 private:
  std::unique_ptr<T> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!waiting_.empty()) {
        std::unique_ptr<T> value = std::move(waiting_.back());
        waiting_.pop_back();
        return value;
      }
    }
    return std::make_unique<T>();
  }
  void give_back(std::unique_ptr<T> value) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() < most_) waiting_.push_back(std::move(value));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> waiting_;
  std::size_t most_;
};

}  // namespace plimsoll
