// SPDX-License-Identifier: Apache-2.0
// What a run is held against: the job it was said to be, and its price on every pipeline rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "answer/input.h"
#include "job/request.h"
#include "lever/price.h"

namespace plimsoll::live {

struct Prediction {
  job::Request request;
  job::Job job;
  lever::Price price;
  std::string job_file;  // the job as a job file that reads back as the same job; "" where none can say it
  std::string problem;   // why there is none
};

[[nodiscard]] Result<Prediction> predict(answer::Input input, const lever::World& world);
[[nodiscard]] Result<Prediction> predict(job::Request request, const lever::World& world);

// The pipeline rank of a global rank: Megatron's order has it outermost but for data parallelism, where the job says so
// (facts megatron-memory.md 2). Nothing where the world is not the job's.
[[nodiscard]] std::optional<std::int64_t> pipeline_rank(const job::Job& job, std::int64_t rank, std::int64_t world);

// The answer for that pipeline rank; nullptr where there is none.
[[nodiscard]] const memory::RankAnswer* answer_for(const Prediction& prediction, std::int64_t pp_rank);

}  // namespace plimsoll::live
