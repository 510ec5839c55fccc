// SPDX-License-Identifier: Apache-2.0
// The devices as NVIDIA's management library sees them, asked in a process of its own: a driver that aborts, or that
// hangs because a GPU fell off the bus, costs the figures and neither the run that is watched nor our exit code.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace plimsoll::live {

struct DeviceProcessUse {
  std::int64_t pid = 0;    // as the driver numbers it: another number inside a container
  std::int64_t bytes = 0;  // -1: the driver does not say
};

struct DeviceUse {
  int index = 0;
  std::string name;
  std::string uuid;
  std::int64_t total = 0;  // bytes
  std::int64_t used = 0;   // of all processes, the driver's own share included
  int busy_percent = -1;   // share of the last second with a kernel; -1: not known
  std::vector<DeviceProcessUse> processes;
};

class Nvml {
 public:
  // Starts the process and has it load the library of that name; "" is the driver's own, or what PLIMSOLL_NVML names.
  // To be called before other threads are started. A missing library says so.
  [[nodiscard]] static Result<std::unique_ptr<Nvml>> load(const std::string& library = {});
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Every device that answers, by one thread at a time. None any more once the process has ended or has not answered
  // for seconds; problem() says which.
  [[nodiscard]] std::vector<DeviceUse> read();
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  Nvml() = default;
  // What the process says next; nothing where it says no more, and then problem_ tells why.
  [[nodiscard]] std::string receive(std::chrono::seconds patience);
  enum class Process { kRuns, kEnded };
  void give_up(std::string why, Process process_is = Process::kRuns);

  pid_t process_ = -1;
  int ask_ = -1;  // ends of pipes
  int answer_ = -1;
  std::string problem_;
};

// How the two processes write devices to each other: packed, and read as distrustfully as a file.
[[nodiscard]] std::string pack(const std::vector<DeviceUse>& devices);
[[nodiscard]] Result<std::vector<DeviceUse>> unpack(std::string_view packed);

}  // namespace plimsoll::live
