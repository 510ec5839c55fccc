// SPDX-License-Identifier: Apache-2.0
// Host memory of a run, read from /proc: what its processes hold, and what the machine has left.
// Every reader takes the folder that stands for "/", so that tests give recorded ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::live {

struct ProcessUse {
  std::int64_t pid = 0;
  std::string name;
  std::int64_t resident = 0;   // bytes
  std::int64_t anonymous = 0;  // of them nobody else's
  std::int64_t shared = 0;     // of them in shared memory, counted by every process that maps it
};

struct TreeUse {
  std::vector<ProcessUse> processes;
  // Pages of shared memory are in every process that maps them: they count once, as the largest share of one.
  [[nodiscard]] std::int64_t bytes() const;
};

// A process and all that descend from it; those that ended meanwhile are left out.
[[nodiscard]] TreeUse read_tree(std::int64_t pid, const std::string& root = "/");

struct MachineUse {
  std::int64_t total = 0;       // bytes; 0: not known
  std::int64_t available = 0;   // to be had without swapping
  std::int64_t page_cache = 0;  // files in memory
  std::int64_t shm_used = 0;    // of /dev/shm
  std::int64_t shm_total = 0;
};

[[nodiscard]] MachineUse read_machine(const std::string& root = "/");

}  // namespace plimsoll::live
