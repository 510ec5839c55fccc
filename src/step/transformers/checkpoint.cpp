// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/checkpoint.h"

#include <algorithm>

namespace plimsoll::step::transformers {

bool gathers_state(const job::Job& job) {
  const job::ShardingKind kind = job.sharding.kind;
  return job.checkpoint.saved == job::StateDict::kFull &&
         (kind == job::ShardingKind::kFsdp1 || kind == job::ShardingKind::kFsdp2);
}

std::int64_t gathered_at_once(const Model& model) {
  const job::Sharding& sharding = model.job->sharding;
  const auto elements = [&model](std::int32_t first, std::int32_t last) {
    std::int64_t sum = 0;
    for (std::int32_t id = first; id < last; ++id) sum += model.weights[static_cast<std::size_t>(id)].elements;
    return sum;
  };
  std::int64_t most = 0;
  if (sharding.kind == job::ShardingKind::kFsdp2) {
    for (const Weight& w : model.weights) most = std::max(most, w.elements);
  } else {
    std::int64_t root = elements(0, static_cast<std::int32_t>(model.weights.size()));
    if (sharding.units != job::FsdpUnits::kWholeModel)
      for (const LayerIds& layer : model.layers) {
        const std::int64_t unit = elements(layer.first, layer.last);
        most = std::max(most, unit);
        root -= unit;
      }
    most = std::max(most, root);
  }
  return most * job::size_of(sharding.stored);
}

std::int64_t gathered_on_host(const Model& model, std::int64_t states) {
  const job::Job& job = *model.job;
  const std::int64_t ranks =
      job.data_parallel * job.parallel.context / std::max<std::int64_t>(1, job.sharding.replicas);
  std::int64_t weights = 0;
  std::int64_t trained = 0;
  for (const Weight& w : model.weights) {
    weights += w.elements;
    if (w.trainable) trained += w.elements;
  }
  // Offloaded states are two moments in the dtype of the shards.
  const std::int64_t width = job::size_of(job.sharding.stored);
  const std::int64_t whole = job.sharding.cpu_offload ? 2 * trained * width : states * ranks;
  return std::max(weights * width, whole);
}

}  // namespace plimsoll::step::transformers
