// SPDX-License-Identifier: Apache-2.0
// Work shared among threads. A machine that refuses threads gets the same answer from fewer, and what a thread throws
// (memory that is not to be had) is thrown in the caller instead of ending the program.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace plimsoll {

// A value that others wait for. Where making it throws, those who wait get T{} and the maker throws on.
template <class T>
class Gate {
 public:
  template <class Make>
  void open_with(const Make& make) {
    struct Opener {
      Gate& gate;
      T value{};
      ~Opener() {
        const std::lock_guard lock(gate.mutex_);
        gate.value_ = std::move(value);
        gate.opened_.notify_all();
      }
    } opener{*this};
    opener.value = make();
  }
  T wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return value_.has_value(); });
    return *value_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  std::optional<T> value_;
};

// Runs work(0) in the calling thread and work(1), ... in as many others as are to be had, `threads` in all at most;
// 0: one per core. Returns when all are done. The work shares its items itself, so that any number of workers does all.
// Work that shares again does so alone: the cores are busy with the outer one.
void share_work(unsigned threads, const std::function<void(unsigned worker)>& work);

// Work in two parts, of which the second is known only after prepare(), which answers how many items it has: one worker
// prepares while the others do the first part, so that no core waits. first(i) for every i below `count`, second(i)
// likewise.
template <class First, class Prepare, class Second>
void share_in_parts(std::size_t count, const First& first, const Prepare& prepare, const Second& second) {
  std::atomic<std::size_t> next_first{0};
  std::atomic<std::size_t> next_second{0};
  std::atomic<bool> is_taken{false};
  Gate<std::size_t> prepared;
  share_work(0, [&](unsigned worker) {
    const auto prepare_once = [&] {
      if (!is_taken.exchange(true)) prepared.open_with(prepare);
    };
    if (worker > 0) prepare_once();
    for (std::size_t i = next_first++; i < count; i = next_first++) first(i);
    prepare_once();  // where there is one worker
    const std::size_t rest = prepared.wait();
    for (std::size_t i = next_second++; i < rest; i = next_second++) second(i);
  });
}

// work(i) for every i below `count`, on all cores.
template <class Work>
void share_items(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  share_work(count > 1 ? 0 : 1, [&](unsigned) {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  });
}

}  // namespace plimsoll
