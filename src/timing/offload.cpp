// SPDX-License-Identifier: Apache-2.0
#include "timing/offload.h"

#include <algorithm>

#include "step/megatron/chunk.h"

namespace plimsoll::timing {

double offloaded_bytes_per_layer(const job::Job& job) {
  if ((!job.offload.activations && !job.offload.fine_grained) || !job.is_megatron() || job.model.layers.empty())
    return 0;
  const step::megatron::Choices choices = step::megatron::choices_of(job);
  const auto scope =
      job.offload.activations ? step::megatron::OffloadScope::kLayer : step::megatron::OffloadScope::kModules;
  step::megatron::LayerKind kind(
      choices, step::megatron::layer_sizes(job, job.model.layer(job.model.depth() / 2), false), scope);
  return static_cast<double>(kind.offloaded_bytes()) * job.offload.fraction;
}

OffloadCost offload_cost(const job::Job& job, const Machine& machine, double bytes, double forward, double backward) {
  const double copy = bytes / machine.host_link;
  const double slowdown = machine.calibration->offload_slowdown;
  // Copies out run beside the forward, copies back beside the backward; in a pipeline both at once, and host
  // memory then serves half of each.
  const double shared = job.parallel.pipeline > 1 ? 2 * copy : copy;
  return {std::max(0.0, shared - forward) + slowdown * forward, std::max(0.0, shared - backward) + slowdown * backward};
}

}  // namespace plimsoll::timing
