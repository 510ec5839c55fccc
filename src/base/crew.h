// SPDX-License-Identifier: Apache-2.0
// Work shared among threads. A machine that refuses threads gets the same answer from fewer, and what a thread throws
// (memory that is not to be had) is thrown in the caller instead of ending the program.
#pragma once

#include <functional>

namespace plimsoll {

// Runs work(0) in the calling thread and work(1), ... in as many others as are to be had, `threads` in all at most;
// 0: one per core. Returns when all are done. The work shares its items itself, so that any number of workers does all.
// Work that shares again does so alone: the cores are busy with the outer one.
void share_work(unsigned threads, const std::function<void(unsigned worker)>& work);

}  // namespace plimsoll
