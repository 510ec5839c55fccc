// SPDX-License-Identifier: Apache-2.0
// Megatron-FSDP (facts megatron-memory.md 3.5): transformer layers are units; everything else keeps its
// compute weight and its gradient unsharded for good, only its optimizer state is sharded.
#include <algorithm>

#include "base/checked.h"
#include "job/effective.h"
#include "step/megatron/state.h"

namespace plimsoll::step::megatron {

namespace {

constexpr std::int64_t kOutsideGradientBytes = 4;  // gradients outside units are kept in fp32

struct Domain {
  std::int64_t shards;        // of weights and gradients
  std::int64_t state_shards;  // of main parameters and moments
};

Domain domain_of(const job::Job& job, bool expert) {
  const std::int64_t all = expert ? job.expert_data_parallel : job.data_parallel * job.parallel.context;
  const std::int64_t inner = std::max<std::int64_t>(1, all / job.optimizer.instances);
  return {inner, job.sharding.outer_optim ? std::max<std::int64_t>(1, all) : inner};
}

}  // namespace

void State::wrap_fsdp(Tape& tape, ChunkState& chunk) {
  const job::MegatronFsdpStrategy strategy = job_.sharding.megatron_strategy;
  const bool shards_params = strategy == job::MegatronFsdpStrategy::kOptimGradsParams;
  const bool shards_grads = shards_params || strategy == job::MegatronFsdpStrategy::kOptimGrads;
  const bool shards_state = strategy != job::MegatronFsdpStrategy::kNoShard;
  const std::int64_t grad_bytes = job::size_of(job_.sharding.megatron_main_grads);
  std::int64_t params = 0;
  std::int64_t grads = 0;
  for (const Weight& w : chunk.weights) {
    const Domain domain = domain_of(job_, w.expert);
    const std::int64_t share = ceil_div(w.elements, domain.shards);
    if (w.frozen) continue;  // stays as the model made it
    params += w.in_layer && shards_params ? ceil_div(param_bytes(w), domain.shards) : param_bytes(w);
    grads += w.in_layer ? grad_bytes * (shards_grads ? share : w.elements) : kOutsideGradientBytes * w.elements;
    chunk.pieces.push_back(
        {shards_state ? ceil_div(w.elements, domain.state_shards) : w.elements, w.decayed, w.expert});
  }
  chunk.buffers.push_back(tape.alloc(params, Name::kParamBuffer));
  chunk.buffers.push_back(tape.alloc(grads, Name::kGradBuffer));
  for (auto* list : {&chunk.dense, &chunk.experts})
    for (Tensor& original : *list) tape.free(original);
}

// Prefetch holds two units of gathered weights, and backward two units of unsharded gradients.
void State::gather_units(Tape& tape) {
  if (!job::shards_by_megatron_fsdp(job_) || !unit_buffers_.empty()) return;
  const job::MegatronFsdpStrategy strategy = job_.sharding.megatron_strategy;
  const bool params = strategy == job::MegatronFsdpStrategy::kOptimGradsParams;
  const bool grads = params || strategy == job::MegatronFsdpStrategy::kOptimGrads;
  std::int64_t in_layers = 0;
  std::int64_t layers = 0;
  for (const ChunkState& chunk : chunks_) {
    layers += chunk.layers;
    for (const Weight& w : chunk.weights)
      if (w.in_layer) in_layers += w.elements;
  }
  if (layers == 0) return;
  const std::int64_t unit = in_layers / layers;
  constexpr std::int64_t kUnitsInFlight = 2;
  if (params)
    unit_buffers_.push_back(
        tape.alloc(kUnitsInFlight * unit * job::size_of(job_.precision.params), Name::kUnshardedWeight));
  if (grads)
    unit_buffers_.push_back(
        tape.alloc(kUnitsInFlight * unit * job::size_of(job_.sharding.megatron_main_grads), Name::kReduceBucket));
}

}  // namespace plimsoll::step::megatron
