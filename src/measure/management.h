// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's management library says of a device besides its memory: under which driver, clocks and power limit it
// was measured.
#pragma once

#include <string>

namespace plimsoll::measure {

struct Conditions {
  std::string driver;      // "580.65.06"; "" where nobody says
  int clock_mhz = 0;       // of the multiprocessors at this instant
  int clock_most_mhz = 0;  // the highest that the device may use
  int memory_clock_mhz = 0;
  double power_limit = 0;  // watts, as it is enforced
  double power = 0;        // watts drawn at this instant
};

// Of the device with that UUID; what the library does not say stays empty. It is libnvidia-ml.so.1, or what
// PLIMSOLL_NVML names.
[[nodiscard]] Conditions read_conditions(const std::string& uuid);

}  // namespace plimsoll::measure
