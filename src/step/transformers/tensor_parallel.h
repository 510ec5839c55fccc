// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism outside Megatron (torchtitan, accelerate): heads, MLP width and vocabulary are split
// over the ranks, everything else is as on one GPU (facts other-frameworks-memory.md 6.4).
#pragma once

#include <string>
#include <vector>

#include "job/job.h"

namespace plimsoll::step::transformers {

// The job whose model is one rank's share; the job itself without tensor parallelism.
[[nodiscard]] job::Job tensor_parallel_share(const job::Job& job);

// Knobs that these frameworks read and this step does not follow: named warnings.
[[nodiscard]] std::vector<std::string> unmodelled(const job::Job& job);

}  // namespace plimsoll::step::transformers
