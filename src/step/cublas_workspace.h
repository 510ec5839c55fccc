// SPDX-License-Identifier: Apache-2.0
// What each thread of a job that multiplies takes for its library, once.
#pragma once

#include "cluster/cublas_workspace.h"
#include "job/job.h"

namespace plimsoll::step {

[[nodiscard]] inline std::int64_t cublas_workspace(const job::Job& job) {
  const auto config = job.environment.find("CUBLAS_WORKSPACE_CONFIG");
  const auto torch = job.stated.find("torch_version");
  return cluster::cublas_workspace(job.cluster.gpu.architecture,
                                   config != job.environment.end() ? std::string_view{config->second} : "",
                                   torch != job.stated.end() ? leading_version(torch->second) : std::nullopt);
}

}  // namespace plimsoll::step
