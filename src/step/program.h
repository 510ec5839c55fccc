// SPDX-License-Identifier: Apache-2.0
// One rank of any framework on a tape: the entry that memory/ and timing/ read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/pipeline_layout.h"
#include "step/tape.h"

namespace plimsoll::step {

struct RankResult {
  std::int64_t parameters = 0;  // elements held by the rank
  std::int64_t host_bytes = 0;  // host memory of this rank: offloaded state and activations
  std::int64_t nvme_bytes = 0;
  std::int64_t outside_bytes = 0;  // device memory outside the torch allocator that the step itself needs
  std::vector<std::string> warnings;
};

// Writes construction and two steps of pipeline rank pp_rank to the tape (steps after the second repeat
// it). The job must be complete and the layout its own.
RankResult run_rank(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank, Tape& tape,
                    bool folded);

}  // namespace plimsoll::step
