// SPDX-License-Identifier: Apache-2.0
#include "job/framework.h"

#include "job/job.h"

namespace plimsoll::job {

Framework assumed_framework(Assumed where) {
  for (const Framework framework : all_frameworks())
    if (facts_of(framework).assumed == where) return framework;
  return kCanonical;
}

std::optional<Framework> framework_of(ShardingKind kind) {
  for (const Framework framework : all_frameworks())
    if (kind != ShardingKind::kNone && facts_of(framework).own_sharding == kind) return framework;
  return std::nullopt;
}

Job defaults_for(Framework framework) {
  Job job;
  job.framework = framework;
  facts_of(framework).set_defaults(job);
  return job;
}

}  // namespace plimsoll::job
