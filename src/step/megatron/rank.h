// SPDX-License-Identifier: Apache-2.0
// One Megatron rank from construction through its second step: the whole program whose peak is asked for.
#pragma once

#include "job/job.h"
#include "job/pipeline_layout.h"
#include "step/megatron/rank_layers.h"
#include "step/program.h"
#include "step/tape.h"

namespace plimsoll::step::megatron {

// Writes the program of pipeline rank `pp_rank` to the tape. On a recording tape every layer is run
// (walked); with folded, layer profiles are measured once and added, and the tape only meters.
step::RankResult run_rank(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank, Tape& tape,
                          bool folded);

// Folded runs of several ranks of one job, whose chunks are measured once per shape.
class FoldedRanks {
 public:
  // All must outlive it; `store` has what other jobs had measured, or is null.
  FoldedRanks(const job::Job& job, const job::PipelineLayout& layout, ProfileStore* store = nullptr);

  // `state` is what profile_state() says of the rank.
  step::RankResult run(std::int64_t pp_rank, Tape& tape, const StateProfile& state);

 private:
  const job::Job& job_;
  const job::PipelineLayout& layout_;
  RankLayers layers_;
};

}  // namespace plimsoll::step::megatron
