// SPDX-License-Identifier: Apache-2.0
// Activations that wait on the host: free while the link keeps up with the passes (facts step-time.md 8).
#pragma once

#include "job/job.h"
#include "timing/machine.h"

namespace plimsoll::timing {

// Bytes that one layer of one micro-batch sends to the host; 0 without activation offload.
[[nodiscard]] double offloaded_bytes_per_layer(const job::Job& job);

struct OffloadCost {
  double forward = 0;
  double backward = 0;
};

// What the copies of one pass add to it.
[[nodiscard]] OffloadCost offload_cost(const job::Job& job, const Machine& machine, double bytes, double forward,
                                       double backward);

}  // namespace plimsoll::timing
