// SPDX-License-Identifier: Apache-2.0
// A value of its own for each thread, as thread_local would give, but without a destructor per thread: glibc ends the
// program when it has no memory to register one. More threads than places share them, one at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>

namespace plimsoll {

inline constexpr std::size_t kThreadPlaces = 64;

// The place of this thread, the same for its life.
inline std::size_t thread_place() {
  static std::atomic<std::size_t> next{0};
  thread_local const std::size_t place = next.fetch_add(1, std::memory_order_relaxed) % kThreadPlaces;
  return place;
}

template <class T>
class PerThread {
 public:
  // use(value), while no other thread has it.
  template <class Use>
  auto with(const Use& use) {
    Place& place = places_[thread_place()];
    const std::lock_guard lock(place.mutex);
    return use(place.value);
  }

 private:
  struct Place {
    std::mutex mutex;
    T value;
  };
  std::array<Place, kThreadPlaces> places_;
};

}  // namespace plimsoll
