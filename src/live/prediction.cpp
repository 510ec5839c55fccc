// SPDX-License-Identifier: Apache-2.0
#include "live/prediction.h"

#include "emit/emit.h"

namespace plimsoll::live {

Result<Prediction> predict(answer::Input input, const lever::World& world) {
  PLIMSOLL_TRY(request, answer::read_input(std::move(input)));
  return predict(std::move(request), world);
}

Result<Prediction> predict(job::Request request, const lever::World& world) {
  PLIMSOLL_TRY(job, job::resolve(request));
  memory::AskedRanks asked;
  asked.all = true;
  PLIMSOLL_TRY(price, lever::price(job, world, asked));
  Prediction prediction{std::move(request), std::move(job), std::move(price), {}, {}};
  const auto files = emit::emit(prediction.job, emit::Target::kJob, {});
  if (files && !files->empty())
    prediction.job_file = files->front().text;
  else if (!files)
    prediction.problem = to_string(files.error());
  return prediction;
}

std::optional<std::int64_t> pipeline_rank(const job::Job& job, std::int64_t rank, std::int64_t world) {
  const std::int64_t stages = job.parallel.pipeline;
  if (stages <= 1) return 0;
  if (world != job.cluster.gpus || rank < 0 || rank >= world || world % stages != 0) return std::nullopt;
  if (!job.parallel.dp_outermost) return rank / (world / stages);
  const std::int64_t inner = job.parallel.tensor * job.parallel.context;
  return rank / inner % stages;
}

const memory::RankAnswer* answer_for(const Prediction& prediction, std::int64_t pp_rank) {
  for (const memory::RankAnswer& rank : prediction.price.memory.ranks)
    if (rank.pp_rank == pp_rank) return &rank;
  return nullptr;
}

}  // namespace plimsoll::live
