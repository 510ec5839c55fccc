// SPDX-License-Identifier: Apache-2.0
#include "live/nvml_library.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::live {

namespace {

// The part of the library's interface that is called here (NVML API reference; its layout is fixed per version suffix).
using Handle = void*;
constexpr int kSuccess = 0;
struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct Utilization {
  unsigned int gpu;
  unsigned int memory;
};
struct ProcessInfo {  // of the functions with suffix _v3
  unsigned int pid;
  unsigned long long used;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
constexpr unsigned kMostProcesses = 256;
constexpr std::size_t kNameBytes = 96;

}  // namespace

struct NvmlLibrary::Functions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned int*) = nullptr;
  int (*handle)(unsigned int, Handle*) = nullptr;
  int (*memory)(Handle, MemoryInfo*) = nullptr;
  int (*name)(Handle, char*, unsigned int) = nullptr;
  int (*uuid)(Handle, char*, unsigned int) = nullptr;
  int (*utilization)(Handle, Utilization*) = nullptr;
  int (*processes)(Handle, unsigned int*, ProcessInfo*) = nullptr;
};

namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// All ones mean that the driver does not say.
std::int64_t bytes_of(unsigned long long value) { return value > (1ULL << 62) ? -1 : static_cast<std::int64_t>(value); }

tl::unexpected<Error> missing(std::string message) {
  return tl::make_unexpected(Error{Code::kMissing, std::move(message), {}, {}});
}

}  // namespace

Result<std::unique_ptr<NvmlLibrary>> NvmlLibrary::load(const std::string& library) {
  const char* named = std::getenv("PLIMSOLL_NVML");
  const std::string path = !library.empty()                     ? library
                           : named != nullptr && *named != '\0' ? named
                                                                : "libnvidia-ml.so.1";
  std::unique_ptr<NvmlLibrary> nvml(new NvmlLibrary);
  nvml->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (nvml->handle_ == nullptr) return missing(fmt::format("{} cannot be loaded: no NVIDIA driver here", path));
  auto call = std::make_unique<Functions>();
  void* const from = nvml->handle_;
  const bool complete = find(from, "nvmlInit_v2", call->init) && find(from, "nvmlShutdown", call->shutdown) &&
                        find(from, "nvmlDeviceGetCount_v2", call->count) &&
                        find(from, "nvmlDeviceGetHandleByIndex_v2", call->handle) &&
                        find(from, "nvmlDeviceGetMemoryInfo", call->memory);
  if (!complete) return missing(fmt::format("{} lacks functions of NVML", path));
  find(from, "nvmlDeviceGetName", call->name);
  find(from, "nvmlDeviceGetUUID", call->uuid);
  find(from, "nvmlDeviceGetUtilizationRates", call->utilization);
  find(from, "nvmlDeviceGetComputeRunningProcesses_v3", call->processes);
  if (const int code = call->init(); code != kSuccess)
    return missing(fmt::format("{} does not start: NVML error {}", path, code));
  nvml->call_ = std::move(call);
  return nvml;
}

NvmlLibrary::~NvmlLibrary() {
  if (call_ != nullptr) call_->shutdown();
  if (handle_ != nullptr) dlclose(handle_);
}

std::vector<DeviceUse> NvmlLibrary::read() const {
  std::vector<DeviceUse> devices;
  unsigned int count = 0;
  if (call_->count(&count) != kSuccess) return devices;
  for (unsigned int i = 0; i < count; ++i) {
    Handle handle = nullptr;
    MemoryInfo memory{};
    if (call_->handle(i, &handle) != kSuccess || call_->memory(handle, &memory) != kSuccess) continue;
    DeviceUse device;
    device.index = static_cast<int>(i);
    device.total = bytes_of(memory.total);
    device.used = bytes_of(memory.used);
    std::array<char, kNameBytes> text{};
    if (call_->name != nullptr && call_->name(handle, text.data(), kNameBytes - 1) == kSuccess)
      device.name = printable(text.data(), kNameBytes);
    text.fill('\0');
    if (call_->uuid != nullptr && call_->uuid(handle, text.data(), kNameBytes - 1) == kSuccess)
      device.uuid = printable(text.data(), kNameBytes);
    Utilization busy{};
    if (call_->utilization != nullptr && call_->utilization(handle, &busy) == kSuccess)
      device.busy_percent = static_cast<int>(busy.gpu);
    std::array<ProcessInfo, kMostProcesses> processes{};
    unsigned int running = kMostProcesses;
    if (call_->processes != nullptr && call_->processes(handle, &running, processes.data()) == kSuccess)
      for (unsigned int p = 0; p < running && p < kMostProcesses; ++p)
        device.processes.push_back({static_cast<std::int64_t>(processes[p].pid), bytes_of(processes[p].used)});
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace plimsoll::live
