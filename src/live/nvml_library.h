// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library in this process, loaded while it runs: the program neither needs it to start nor to
// build. It is foreign code that may hang or end its process; live/nvml.h keeps it in a process of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "live/nvml.h"

namespace plimsoll::live {

class NvmlLibrary {
 public:
  // The library of that name; "" is the driver's own, or what PLIMSOLL_NVML names. A missing one says so.
  [[nodiscard]] static Result<std::unique_ptr<NvmlLibrary>> load(const std::string& library);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  // Every device that answers. One that fell off the bus is left out.
  [[nodiscard]] std::vector<DeviceUse> read() const;

 private:
  NvmlLibrary() = default;
  struct Functions;
  void* handle_ = nullptr;
  std::unique_ptr<Functions> call_;
};

}  // namespace plimsoll::live
