// SPDX-License-Identifier: Apache-2.0
// Weights of the causes, given the event that started it all. Kept apart from the assembly of the
// answer so that the rules can be read as a list.
#pragma once

#include <array>
#include <string>

#include "why/diagnosis.h"

namespace plimsoll::why {

struct Weights {
  std::array<double, kCauses> of{};
  std::array<std::string, kCauses> because;

  void add(Cause cause, double weight, std::string why) {
    double& slot = of[static_cast<std::size_t>(cause)];
    if (weight > 0 && weight >= slot) because[static_cast<std::size_t>(cause)] = std::move(why);
    slot += weight;
  }
  void scale(Cause cause, double factor) { of[static_cast<std::size_t>(cause)] *= factor; }
  [[nodiscard]] double at(Cause cause) const { return of[static_cast<std::size_t>(cause)]; }
};

struct Circumstances {
  const Findings& findings;
  const Event& root;
  Phase phase = Phase::kUnknown;
  Arithmetic sum;
  Growth growth;
  bool also_library = false;     // cuBLAS failed as well
  bool also_addressing = false;  // a device assert or the like is in the log too
  bool restarts_at_same_step = false;
};

// What the run was doing at the event: its frames, else the last marker.
[[nodiscard]] Phase phase_of(const Event& event);

[[nodiscard]] Weights weigh(const Circumstances& at);
// For allocator messages of a device (weigh_oom.cpp).
void weigh_device_oom(const Circumstances& at, Weights& weights);

}  // namespace plimsoll::why
