// SPDX-License-Identifier: Apache-2.0
// One rank of a Transformers, FSDP, DeepSpeed or torchtitan job: construction, two training steps and an
// evaluation phase on the tape (facts other-frameworks-memory.md).
#pragma once

#include <string>
#include <vector>

#include "job/job.h"
#include "step/tape.h"

namespace plimsoll::step::transformers {

struct RankResult {
  std::int64_t parameters = 0;     // of the whole model that this rank works on, adapters included
  std::int64_t host_bytes = 0;     // pinned or pageable host memory of this rank
  std::int64_t rank0_bytes = 0;    // host memory of rank 0 alone, while state is brought together there
  std::int64_t nvme_bytes = 0;     // of this rank
  std::int64_t outside_bytes = 0;  // device memory outside the torch allocator
  bool trains = true;              // false: no module takes the adapters
  std::vector<std::string> warnings;
};

// The job must be complete and refer to a validated model. Folded: only sums, fast; its peak is that of
// the recorded run.
// pp_rank counts pipeline stages (torchtitan); it must lie in the job's layout.
RankResult run_rank(const job::Job& job, Tape& tape, bool folded, std::int64_t pp_rank = 0);

}  // namespace plimsoll::step::transformers
