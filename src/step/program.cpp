// SPDX-License-Identifier: Apache-2.0
#include "step/program.h"

#include "step/megatron/rank.h"

namespace plimsoll::step {

RankResult run_rank(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank, Tape& tape,
                    bool folded) {
  return megatron::run_rank(job, layout, pp_rank, tape, folded);
}

}  // namespace plimsoll::step
