// SPDX-License-Identifier: Apache-2.0
#include "step/program.h"

#include "step/megatron/rank.h"
#include "step/transformers/rank.h"
#include "step/transformers/tensor_parallel.h"

namespace plimsoll::step {

RankResult run_rank(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank, Tape& tape,
                    bool folded) {
  if (job.is_megatron()) return megatron::run_rank(job, layout, pp_rank, tape, folded);
  const bool splits = job.parallel.tensor > 1;
  transformers::RankResult result = splits
                                        ? transformers::run_rank(transformers::tensor_parallel_share(job), tape, folded)
                                        : transformers::run_rank(job, tape, folded);
  if (!folded)
    for (std::string& warning : transformers::unmodelled(job)) result.warnings.push_back(std::move(warning));
  return {result.parameters, result.host_bytes, result.nvme_bytes, result.outside_bytes, std::move(result.warnings)};
}

}  // namespace plimsoll::step
