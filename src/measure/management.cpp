// SPDX-License-Identifier: Apache-2.0
#include "measure/management.h"

#include <array>
#include <cstdlib>

#include "base/text.h"
#include "measure/library.h"

namespace plimsoll::measure {

namespace {

constexpr int kOk = 0;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr double kMilliwatt = 1e-3;

template <class... Argument>
using Function = int (*)(Argument...);

}  // namespace

Conditions read_conditions(const std::string& uuid) {
  Conditions conditions;
  const char* named = std::getenv("PLIMSOLL_NVML");
  const auto library =
      Library::open({named != nullptr && *named != '\0' ? std::string(named) : "libnvidia-ml.so.1"}, {});
  if (!library) return conditions;
  const Library& from = **library;
  Function<> init = nullptr;
  Function<> shutdown = nullptr;
  Function<const char*, void**> device_of = nullptr;
  if (!from.find("nvmlInit_v2", init) || !from.find("nvmlShutdown", shutdown) || init() != kOk) return conditions;
  constexpr unsigned kTextBytes = 96;
  std::array<char, kTextBytes> text{};
  Function<char*, unsigned> version = nullptr;
  if (from.find("nvmlSystemGetDriverVersion", version) && version(text.data(), kTextBytes - 1) == kOk)
    conditions.driver = printable(text.data(), kTextBytes);
  void* device = nullptr;
  if (from.find("nvmlDeviceGetHandleByUUID", device_of) && device_of(uuid.c_str(), &device) == kOk) {
    Function<void*, int, unsigned*> clock = nullptr;
    Function<void*, unsigned*> number = nullptr;
    unsigned value = 0;
    if (from.find("nvmlDeviceGetClockInfo", clock) && clock(device, kClockSm, &value) == kOk)
      conditions.clock_mhz = static_cast<int>(value);
    if (clock != nullptr && clock(device, kClockMemory, &value) == kOk)
      conditions.memory_clock_mhz = static_cast<int>(value);
    if (from.find("nvmlDeviceGetMaxClockInfo", clock) && clock(device, kClockSm, &value) == kOk)
      conditions.clock_most_mhz = static_cast<int>(value);
    if (from.find("nvmlDeviceGetEnforcedPowerLimit", number) && number(device, &value) == kOk)
      conditions.power_limit = value * kMilliwatt;
    if (from.find("nvmlDeviceGetPowerUsage", number) && number(device, &value) == kOk)
      conditions.power = value * kMilliwatt;
  }
  shutdown();
  return conditions;
}

}  // namespace plimsoll::measure
