// SPDX-License-Identifier: Apache-2.0
#include "step/program.h"

#include "step/megatron/rank.h"
#include "step/transformers/rank.h"

namespace plimsoll::step {

RankResult run_rank(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank, Tape& tape,
                    bool folded) {
  if (job.is_megatron()) return megatron::run_rank(job, layout, pp_rank, tape, folded);
  transformers::RankResult result = transformers::run_rank(job, tape, folded, pp_rank);
  return {result.parameters, result.host_bytes, result.nvme_bytes, result.outside_bytes, std::move(result.warnings)};
}

}  // namespace plimsoll::step
