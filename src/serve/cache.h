// SPDX-License-Identifier: Apache-2.0
// Keeps what was made for the latest questions, because the page asks about one thing many times: zooming, hovering.
// Two threads that ask for the same thing at once make it once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/result.h"

namespace plimsoll::serve {

template <class T>
class Cache {
 public:
  explicit Cache(std::size_t most) : most_(most) {}

  // The kept value, or what `make` gives; an error is not kept.
  Result<std::shared_ptr<const T>> get(const std::string& key, const std::function<Result<T>()>& make) {
    const std::shared_ptr<Slot> slot = slot_of(key);
    const std::lock_guard lock(slot->mutex);
    if (slot->value) return slot->value;
    return fill(*slot, make);
  }

  // The same for a question that has to be answered anew: what was made before it came does not count.
  Result<std::shared_ptr<const T>> renew(const std::string& key, const std::function<Result<T>()>& make) {
    const std::shared_ptr<Slot> slot = slot_of(key);
    const std::uint64_t before = slot->made;
    const std::lock_guard lock(slot->mutex);
    if (slot->made != before) return slot->value;
    return fill(*slot, make);
  }

 private:
  struct Slot {
    std::string key;
    std::mutex mutex;
    std::shared_ptr<const T> value;
    std::atomic<std::uint64_t> made{0};  // how often
  };

  static Result<std::shared_ptr<const T>> fill(Slot& slot, const std::function<Result<T>()>& make) {
    auto made = make();
    if (!made) return tl::make_unexpected(std::move(made.error()));
    slot.value = std::make_shared<const T>(*std::move(made));
    ++slot.made;
    return slot.value;
  }

  std::shared_ptr<Slot> slot_of(const std::string& key) {
    const std::lock_guard lock(mutex_);
    for (auto at = slots_.begin(); at != slots_.end(); ++at) {
      if ((*at)->key != key) continue;
      slots_.splice(slots_.begin(), slots_, at);
      return slots_.front();
    }
    slots_.push_front(std::make_shared<Slot>());
    slots_.front()->key = key;
    if (slots_.size() > most_) slots_.pop_back();
    return slots_.front();
  }

  std::size_t most_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Slot>> slots_;  // latest first
};

}  // namespace plimsoll::serve
