// SPDX-License-Identifier: Apache-2.0
#include "memory/interval.h"

#include <algorithm>

namespace plimsoll::memory {

namespace {

// The verdict rests on reserved memory, so these are 90th percentiles of its error in docs/accuracy.md,
// rounded up; golden values have no reserved figure, theirs is that of allocated memory and a point more.
constexpr double kMegatronLocal = 0.04;
constexpr double kTransformers = 0.04;
constexpr double kTransformerEngine = 0.06;
// Mechanisms read in sources but in no recording.
constexpr double kDerived = 0.08;
constexpr double kNotModelled = 0.05;  // for each named warning, up to three

}  // namespace

double relative_interval(const job::Job& job, std::size_t step_warnings) {
  double share = kDerived;
  if (job.is_megatron()) {
    share = job.kernels.implementation == job::Implementation::kLocal ? kMegatronLocal : kTransformerEngine;
  } else if (job.framework == job::Framework::kTransformers || job.framework == job::Framework::kFsdp2) {
    share = kTransformers;
  }
  if (job.model.has_moe() || job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4)
    share = std::max(share, kDerived);
  return share + kNotModelled * static_cast<double>(std::min<std::size_t>(3, job.warnings.size() + step_warnings));
}

}  // namespace plimsoll::memory
