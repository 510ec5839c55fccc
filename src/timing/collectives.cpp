// SPDX-License-Identifier: Apache-2.0
#include "timing/collectives.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::timing {

namespace {

double latency(const Machine& machine, const Span& span) {
  return span.crosses() ? machine.calibration->latency_network : machine.calibration->latency_nvlink;
}

double exchange(const Machine& machine, const Span& span, double bytes, double nvlink, double nic) {
  const double n = span.size;
  const double near = (span.inside - 1) / n * bytes / nvlink;
  const double far = span.crosses() ? (n - span.inside) / n * bytes / nic : 0;
  return latency(machine, span) + std::max(near, far);
}

// Distinct places among `places` that `draws` uniform draws hit.
double reached(double places, double draws) { return places * (1 - std::pow(1 - 1 / places, draws)); }

}  // namespace

double gather_seconds(const Machine& machine, const Span& span, double bytes) {
  if (span.size <= 1 || bytes <= 0) return 0;
  // Rings inside a domain and between domains run as one pipeline: the slower sets the pace.
  const double near = (span.inside - 1) / span.inside * bytes / machine.nvlink;
  const double domains = span.size / span.inside;
  const double far = span.crosses() ? (domains - 1) / domains * bytes / span.inside / machine.nic : 0;
  return latency(machine, span) + std::max(near, far);
}

double all_reduce_seconds(const Machine& machine, const Span& span, double bytes) {
  return 2 * gather_seconds(machine, span, bytes);
}

double all_to_all_seconds(const Machine& machine, const Span& span, double bytes) {
  if (span.size <= 1 || bytes <= 0) return 0;
  return exchange(machine, span, bytes, machine.all_to_all_nvlink, machine.all_to_all_nic);
}

double dispatch_seconds(const Machine& machine, const Span& span, double bytes, double merged) {
  if (span.size <= 1 || bytes <= 0) return 0;
  if (merged <= 0) return all_to_all_seconds(machine, span, bytes);
  const double domains = span.size / span.inside;
  const double ranks = reached(span.size, merged);
  const double near = ranks * (span.inside - 1) / span.size * bytes / machine.expert_nvlink;
  if (!span.crosses()) return latency(machine, span) + near;
  // A token that came over the network is spread by the GPU that received it.
  const double spread = ranks * (span.size - span.inside) / span.size * bytes / machine.expert_nvlink;
  // DeepEP's kernels reach 0.92 of a NIC over four nodes and half of that over eight (H100).
  constexpr double kNodes = 4;
  const double far =
      reached(domains, merged) * (domains - 1) / domains * bytes / machine.expert_nic * std::max(1.0, domains / kNodes);
  return latency(machine, span) + std::max(near + spread, far);
}

double hop_seconds(const Machine& machine, bool crosses, double bytes) {
  if (bytes <= 0) return 0;
  return crosses ? machine.calibration->latency_network + bytes / machine.nic
                 : machine.calibration->latency_nvlink + bytes / machine.nvlink;
}

}  // namespace plimsoll::timing
