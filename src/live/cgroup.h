// SPDX-License-Identifier: Apache-2.0
// The memory group of a process: its limit, what is charged to it, and how often the kernel had to end somebody in it.
// Versions 1 and 2; the tightest limit of the group and of those above it counts.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::live {

struct CgroupUse {
  int version = 0;             // 0: none found
  std::string path;            // of the group, below its mount
  std::int64_t limit = 0;      // bytes; 0: none
  std::int64_t current = 0;    // charged, files in memory included
  std::int64_t peak = 0;       // the most; 0: the kernel does not say
  std::int64_t files = 0;      // of the current: page cache, given back under pressure
  std::int64_t failures = 0;   // times that the limit was hit
  std::int64_t oom_kills = 0;  // processes that the kernel ended for it
};

[[nodiscard]] CgroupUse read_cgroup(std::int64_t pid, const std::string& root = "/");

}  // namespace plimsoll::live
