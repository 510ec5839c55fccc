// SPDX-License-Identifier: Apache-2.0
#include "rl/sync.h"

#include <algorithm>
#include <cmath>

#include "model/parameters.h"
#include "timing/collectives.h"
#include "timing/machine.h"

namespace plimsoll::rl {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

// Of one tensor: names, views, the collective that gathers it and the engine's own loader. It grows with the logarithm
// of the GPUs that take part. From verl's measurements on 8, 32 and 128 GPUs (facts rl-and-inference.md 6) less 2N over
// one link: 0.35, 0.78 and 1.3 ms per tensor, and 0.06, 0.16 and 0.33 ms with its checkpoint engine's flat buckets.
double tensor_seconds(bool alone, std::int64_t gpus) {
  const double doublings = std::log2(std::max(2.0, real(gpus)));
  return alone ? 0.24e-3 * std::max(0.5, doublings - 1.5) : 0.067e-3 * std::max(0.5, doublings - 2.1);
}
constexpr double kPageable = 0.35;  // rate of copies to pageable memory against pinned

bool is_spread(RayStrategy strategy) {
  return strategy == RayStrategy::kSpread || strategy == RayStrategy::kStrictSpread;
}

}  // namespace

std::int64_t checkpoint_tensors(const model::Architecture& model) {
  std::int64_t tensors = model.tied_embeddings ? 2 : 3;
  for (std::int64_t i = 0; i < model.depth(); ++i) {
    const model::Layer& layer = model.layer(i);
    const bool mla = layer.attention.kind == model::AttentionKind::kMla;
    tensors += layer.norms + (mla ? 7 : 4) + (layer.attention.qkv_bias ? 3 : 0) +
               (layer.attention.qk_norm != model::QkNorm::kNone ? 2 : 0);
    const std::int64_t per_mlp = layer.ffn.gated ? 3 : 2;
    if (layer.ffn.is_moe()) tensors += 1 + per_mlp * layer.ffn.experts;
    if (layer.ffn.width > 0 && !layer.ffn.is_moe()) tensors += per_mlp;
    if (layer.ffn.shared_width > 0) tensors += per_mlp;
  }
  return tensors;
}

SyncTime sync_time(const Run& run, const job::Job& trainer, std::int64_t states, const lever::World& world) {
  SyncTime time;
  const timing::Machine machine(run.cluster, world.calibration);
  const double elements = real(model::count_parameters(run.model).total);
  const double sent_size = run.server.weights == inference::WeightType::kFp32 ? 4 : 2;
  time.bytes = elements * sent_size;
  time.tensors = checkpoint_tensors(run.model);
  // Gather of what is split over the trainer: FSDP over its ranks in the dtype of the shards, Megatron over TP, PP
  // and EP in bf16.
  const std::int64_t split =
      trainer.is_megatron() ? trainer.parallel.pipeline *
                                  std::max(trainer.parallel.tensor, trainer.parallel.expert * trainer.expert_tensor())
                            : trainer.data_parallel;
  if (split > 1) {
    const double stored = trainer.is_megatron() ? 2 : real(job::size_of(trainer.sharding.stored));
    const bool apart = run.cluster.gpus > run.cluster.gpus_per_node && is_spread(run.placing.trainer);
    const std::int64_t stride = apart ? machine.domain : 1;
    time.gather = timing::gather_seconds(machine, timing::span_of(machine, split, stride), elements * stored);
  }
  const bool alone = run.sync.mode == SyncMode::kPerTensor || run.sync.mode == SyncMode::kShared;
  const std::int64_t partners = split + (run.is_colocated() ? 0 : run.inference_gpus);
  time.load =
      real(time.tensors) * tensor_seconds(alone, partners) + time.bytes / real(run.server.tensor) / machine.stream;
  if (run.sync.mode == SyncMode::kShared) {
    time.shared = true;
    if (run.offload_trainer)
      time.switching = 2 * real(states) / (machine.host_link * (run.sync.pin_memory ? 1 : kPageable));
    // Every GPU already gathered the weights; the servers take their part by a copy within it.
    time.transfer = time.bytes / real(run.gpus_per_server()) / machine.stream;
    return time;
  }
  time.crosses = run.cluster.gpus > machine.domain;
  const double link = time.crosses ? machine.nic : machine.nvlink;
  time.transfer = time.bytes / link;  // through the link of one GPU: a broadcast has one source
  if (run.sync.cpu_staging) time.staging = 2 * time.bytes / (machine.host_link * (run.sync.pin_memory ? 1 : kPageable));
  return time;
}

}  // namespace plimsoll::rl
