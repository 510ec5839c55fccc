// SPDX-License-Identifier: Apache-2.0
// Settings are checked, not assumed: the environment and memory of a live process, and what a launch
// script exports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::answer {

struct CheckedSetting {
  std::string name;     // "PYTORCH_CUDA_ALLOC_CONF"
  std::string value;    // "" when it is not set
  std::string verdict;  // what follows from it
  bool is_problem = false;
};

struct LiveProcess {
  std::int64_t pid = 0;
  std::string command;
  std::int64_t resident = 0;  // bytes of host memory
  std::int64_t peak = 0;      // the most it had
  std::int64_t shared = 0;    // of it in shared memory
  std::int64_t limit = 0;     // of its cgroup; 0: none or not known
  std::vector<CheckedSetting> settings;
};

// Reads /proc. A process that is not there, or not ours, is bad input.
[[nodiscard]] Result<LiveProcess> read_process(std::int64_t pid);

// What the text of a launch script exports to the program that it starts.
[[nodiscard]] std::vector<CheckedSetting> check_script(std::string_view text);

[[nodiscard]] std::string to_json(const LiveProcess& process);

struct CheckedScript {
  std::string path;
  std::vector<CheckedSetting> settings;
};
[[nodiscard]] std::string to_json(const CheckedScript& script);

}  // namespace plimsoll::answer
