// SPDX-License-Identifier: Apache-2.0
// Work shared among threads. A machine that refuses threads gets the same answer from fewer, and what a thread throws
// (memory that is not to be had) is thrown in the caller instead of ending the program.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace plimsoll {

// Runs work(0) in the calling thread and work(1), ... in as many others as are to be had, `threads` in all at most;
// 0: one per core. Returns when all are done. The work shares its items itself, so that any number of workers does all.
// Work that shares again does so alone: the cores are busy with the outer one.
void share_work(unsigned threads, const std::function<void(unsigned worker)>& work);

// work(i) for every i below `count`, on all cores.
template <class Work>
void share_items(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  share_work(count > 1 ? 0 : 1, [&](unsigned) {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  });
}

}  // namespace plimsoll
