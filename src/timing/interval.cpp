// SPDX-License-Identifier: Apache-2.0
#include "timing/interval.h"

namespace plimsoll::timing {

namespace {

constexpr double kDense = 0.12;
constexpr double kMoe = 0.35;
// Frameworks and parts with few or no published figures.
constexpr double kUnmeasured = 0.25;

}  // namespace

double relative_interval(const job::Job& job) {
  if (job.model.has_moe()) return kMoe;
  return job.is_megatron() ? kDense : kUnmeasured;
}

}  // namespace plimsoll::timing
