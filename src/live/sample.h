// SPDX-License-Identifier: Apache-2.0
// One look at everything that a run can exhaust, and the most that was seen of each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "live/cgroup.h"
#include "live/host.h"
#include "live/nvml.h"

namespace plimsoll::live {

struct Sample {
  double seconds = 0;  // since the run began
  std::vector<DeviceUse> devices;
  TreeUse tree;
  CgroupUse cgroup;
  MachineUse machine;
};

// Of a process and what descends from it. `nvml` may be null.
[[nodiscard]] Sample take_sample(std::int64_t pid, Nvml* nvml, const std::string& root = "/");

// A line of samples.jsonl.
[[nodiscard]] std::string to_line(const Sample& sample);

struct Most {
  std::map<int, DeviceUse> devices;        // by index: the sample with the most in use
  std::map<int, std::int64_t> used_first;  // by index: bytes in use before the run
  std::int64_t tree = 0;                   // bytes of the run's processes
  std::int64_t processes = 0;
  std::int64_t shm = 0;
  std::int64_t page_cache = 0;
  std::int64_t least_available = 0;  // of the machine
  CgroupUse cgroup_first;
  CgroupUse cgroup_last;
  std::int64_t cgroup_most = 0;
  MachineUse machine_last;
  std::int64_t samples = 0;

  void add(const Sample& sample);
  // What the kernel did to the group during the run.
  [[nodiscard]] std::int64_t oom_kills() const { return cgroup_last.oom_kills - cgroup_first.oom_kills; }
};

}  // namespace plimsoll::live
