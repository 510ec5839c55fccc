// SPDX-License-Identifier: Apache-2.0
#include "lever/price.h"

#include "job/pipeline_layout.h"

namespace plimsoll::lever {

Result<timing::StepTime> time_of(const job::Job& job, const World& world) {
  PLIMSOLL_TRY_STATUS(timing::check_gpu(world.calibration, job.cluster.gpu));
  PLIMSOLL_TRY(layout, job::pipeline_layout(job));
  timing::StepTime time = timing::predict(job, layout, timing::Machine(job.cluster, world.calibration));
  world.learned.apply(job, time);
  return time;
}

Result<Price> price_of(Result<memory::Answer> answer, Result<timing::StepTime> seconds, const job::Job& job,
                       const World& world) {
  PLIMSOLL_TRY(memory, std::move(answer));
  PLIMSOLL_TRY(time, std::move(seconds));
  world.learned.apply(job, memory);
  for (std::string& word : world.learned.words(job)) memory.warnings.push_back(std::move(word));
  return Price{std::move(memory), std::move(time)};
}

Result<Price> price(const job::Job& job, const World& world, const memory::AskedRanks& asked) {
  PLIMSOLL_TRY(memory, memory::answer(job, asked));
  return price_of(std::move(memory), time_of(job, world), job, world);
}

Result<Estimate> estimate(const job::Job& job, const World& world) {
  PLIMSOLL_TRY(memory, memory::least(job));
  PLIMSOLL_TRY(time, time_of(job, world));
  if (const double factor = world.learned.tensor_factor(job); factor != 1) {
    memory.tensors = static_cast<std::int64_t>(factor * static_cast<double>(memory.tensors));
    for (std::int64_t& peak : memory.peak_by_stage)
      peak = static_cast<std::int64_t>(factor * static_cast<double>(peak));
  }
  memory.outside += world.learned.more_outside(job);
  return Estimate{std::move(memory), std::move(time)};
}

std::optional<double> slower(const timing::StepTime& before, const timing::StepTime& after) {
  if (before.tokens_per_second_per_gpu <= 0 || after.tokens_per_second_per_gpu <= 0) return std::nullopt;
  return before.tokens_per_second_per_gpu / after.tokens_per_second_per_gpu - 1;
}

}  // namespace plimsoll::lever
