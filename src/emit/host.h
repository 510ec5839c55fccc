// SPDX-License-Identifier: Apache-2.0
// What launchers do about the host, none of which changes a byte or a number of the training: cores next to each GPU,
// garbage collected by all ranks at once, and a window for a profiler, behind a variable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "emit/launch.h"

namespace plimsoll::emit {

// numa.sh: starts one rank on the cores and the memory next to its GPU.
[[nodiscard]] File numa_script(const job::Job& job, const Nodes& nodes);

// What a framework is told to open a window for a profiler, as words of its command line.
struct ProfilerWords {
  std::string_view array;             // of the script, which the words are added to
  std::vector<std::string> timeline;  // steps 10 to 12 of rank 0, for Nsight Systems or the framework's own profiler
  std::vector<std::string> memory;    // the memory history, for plimsoll replay
  bool with_nsys = true;              // false: the framework writes its trace by itself
};
[[nodiscard]] std::string profiler_switch(const ProfilerWords& words);

}  // namespace plimsoll::emit
