// SPDX-License-Identifier: Apache-2.0
#include "emit/host.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plimsoll::emit {

namespace {

// GPUs beside one NUMA node: one with each Grace of a GH200, else half of a node's, whether two x86 sockets share
// eight or two Graces share four (the guide of Megatron-Bridge divides by 4 and by 2).
std::int64_t gpus_per_numa_node(const job::Job& job, const Nodes& nodes) {
  if (job.cluster.gpu.id.starts_with("gh200")) return 1;
  return std::max<std::int64_t>(1, nodes.per_node / 2);
}

}  // namespace

File numa_script(const job::Job& job, const Nodes& nodes) {
  const std::int64_t shared = gpus_per_numa_node(job, nodes);
  return File{"numa.sh",
              fmt::format("#!/bin/bash\n"
                          "# Starts one rank on the cores and the memory next to its GPU: NUMA=1 bash launch.sh.\n"
                          "# {} GPU{} beside each NUMA node, taken from the cluster; lstopo and nvidia-smi topo -m "
                          "show yours.\n"
                          "node=$((LOCAL_RANK / {}))\n"
                          "exec numactl --cpunodebind=\"$node\" --membind=\"$node\" python \"$@\"\n",
                          shared, shared == 1 ? "" : "s", shared),
              true};
}

std::string profiler_switch(const ProfilerWords& words) {
  const auto add = [&words](const std::vector<std::string>& all) {
    return fmt::format("{}+=({})", words.array, fmt::join(all, " "));
  };
  std::string text =
      "\n# PROFILE=timeline traces steps 10 to 12 of rank 0; PROFILE=memory records its memory history, which\n"
      "# plimsoll replay and plimsoll view read.\n"
      "case \"${PROFILE:-}\" in\n  timeline)\n";
  if (words.with_nsys)
    text +=
        "    RUN=\"nsys profile -s none -t nvtx,cuda --capture-range=cudaProfilerApi --capture-range-end=stop "
        "--force-overwrite true -o timeline ${RUN:-}\"\n";
  text += fmt::format("    {}\n    ;;\n  memory) {} ;;\nesac\n", add(words.timeline), add(words.memory));
  return text;
}

}  // namespace plimsoll::emit
