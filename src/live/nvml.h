// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library, loaded while the program runs: the program neither needs it to start nor to build.
#pragma once

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
  // The library of that name; "" is the driver's own, or what PLIMSOLL_NVML names. A missing one says so.
  [[nodiscard]] static Result<std::unique_ptr<Nvml>> load(const std::string& library = {});
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Every device that answers. One that fell off the bus is left out.
  [[nodiscard]] std::vector<DeviceUse> read() const;

 private:
  Nvml() = default;
  struct Functions;
  void* handle_ = nullptr;
  std::unique_ptr<Functions> call_;
};

}  // namespace plimsoll::live
