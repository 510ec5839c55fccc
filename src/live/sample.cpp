// SPDX-License-Identifier: Apache-2.0
#include "live/sample.h"

#include <algorithm>

#include <fmt/format.h>

#include "live/nodes.h"

namespace plimsoll::live {

using document::Node;

Sample take_sample(std::int64_t pid, Nvml* nvml, const std::string& root) {
  Sample sample;
  if (nvml != nullptr) sample.devices = nvml->read();
  sample.tree = read_tree(pid, root);
  sample.cgroup = read_cgroup(pid, root);
  sample.machine = read_machine(root);
  return sample;
}

std::string to_line(const Sample& sample) {
  Node devices;
  devices.kind = Node::Kind::kArray;
  for (const DeviceUse& device : sample.devices) {
    Object object;
    object.set("index", device.index).set("used", device.used).set("total", device.total);
    if (device.busy_percent >= 0) object.set("busy", device.busy_percent);
    devices.items.push_back(object.take());
  }
  Object line;
  line.set("t", sample.seconds).add("devices", std::move(devices));
  line.set("processes", sample.tree.processes.size()).set("host", sample.tree.bytes());
  line.set("available", sample.machine.available).set("page_cache", sample.machine.page_cache);
  line.set("shm", sample.machine.shm_used);
  if (sample.cgroup.version > 0) {
    line.set("cgroup", sample.cgroup.current).set("cgroup_limit", sample.cgroup.limit);
    line.set("cgroup_files", sample.cgroup.files).set("oom_kills", sample.cgroup.oom_kills);
  }
  return document::to_json(line.take()) + "\n";
}

void Most::add(const Sample& sample) {
  for (const DeviceUse& device : sample.devices) {
    used_first.try_emplace(device.index, device.used);
    const auto [known, is_new] = devices.try_emplace(device.index, device);
    if (!is_new && device.used > known->second.used) known->second = device;
  }
  tree = std::max(tree, sample.tree.bytes());
  processes = std::max(processes, static_cast<std::int64_t>(sample.tree.processes.size()));
  shm = std::max(shm, sample.machine.shm_used);
  page_cache = std::max(page_cache, sample.machine.page_cache);
  if (samples == 0 || sample.machine.available < least_available) least_available = sample.machine.available;
  // A process that has ended has no group any more.
  if (sample.cgroup.version > 0) {
    if (cgroup_first.version == 0) cgroup_first = sample.cgroup;
    cgroup_last = sample.cgroup;
    cgroup_most = std::max(cgroup_most, sample.cgroup.current);
  }
  machine_last = sample.machine;
  ++samples;
}

}  // namespace plimsoll::live
