// SPDX-License-Identifier: Apache-2.0
// Megatron-FSDP (facts megatron-memory.md 3.5): transformer layers are units; everything else is gathered at its
// first use and stays so.
#include <algorithm>

#include "base/checked.h"
#include "job/effective.h"
#include "step/megatron/state.h"

namespace plimsoll::step::megatron {

namespace {

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

bool State::builds_on_meta() const { return job_.sharding.meta_init && job::shards_by_megatron_fsdp(job_); }

// MXFP8 weights have a buffer for either direction; the gradient buffer carries none of them here.
std::int64_t State::fsdp_param_bytes(const Weight& weight) const {
  const job::Precision& p = job_.precision;
  const bool both_directions = weight.gemm && p.fp8 == job::Fp8Recipe::kMxfp8 && p.fp8_param_gather;
  return both_directions ? 2 * weight.elements : param_bytes(weight);
}

void State::wrap_fsdp(Tape& tape, ChunkState& chunk) {
  const job::MegatronFsdpStrategy strategy = job_.sharding.megatron_strategy;
  const bool shards_params = strategy == job::MegatronFsdpStrategy::kOptimGradsParams;
  const bool shards_grads = shards_params || strategy == job::MegatronFsdpStrategy::kOptimGrads;
  const bool shards_state = strategy != job::MegatronFsdpStrategy::kNoShard;
  const std::int64_t grad_bytes = job::size_of(job_.sharding.megatron_main_grads);
  std::int64_t params = 0;
  std::int64_t grads = 0;
  std::int64_t widest = 0;
  for (const Weight& w : chunk.weights) {
    const Domain domain = domain_of(job_, w.expert);
    const std::int64_t share = ceil_div(w.elements, domain.shards);
    if (w.frozen) continue;  // stays as the model made it
    const std::int64_t bytes = fsdp_param_bytes(w);
    widest = std::max(widest, bytes);
    params += shards_params ? ceil_div(bytes, domain.shards) + (w.in_layer ? 0 : bytes) : bytes;
    // Outside units the whole gradient waits in the queue of reductions, but the embedding's is made at the very end.
    const bool waits = !w.in_layer && !w.is_late;
    grads += grad_bytes * (shards_grads ? share + (waits ? w.elements : 0) : w.elements);
    if (shards_grads && w.is_late) late_gradients_ += grad_bytes * w.elements;
    chunk.pieces.push_back(
        {shards_state ? ceil_div(w.elements, domain.state_shards) : w.elements, w.decayed, w.expert});
  }
  chunk.buffers.push_back(tape.alloc(params, Name::kParamBuffer));
  // A model on the meta device is made weight by weight: the module's own beside the gathered one.
  if (builds_on_meta()) tape.touch(2 * widest, Name::kConstruction);
  chunk.buffers.push_back(tape.alloc(grads, Name::kGradBuffer));
  for (auto* list : {&chunk.dense, &chunk.experts})
    for (Tensor& original : *list) tape.free(original);
}

// Weights are gathered ahead until half of the unit of communication is on its way; that unit is two layers, but never
// less than a billion elements. Double buffers hold two layers and no more. (suggested_communication_unit_size of
// MegatronFSDP._init_fsdp_param_and_grad_buffer, all_gather_params of AllGatherPipeline.)
std::int64_t State::units_in_flight(std::int64_t unit, std::int64_t layers) const {
  constexpr std::int64_t kLeastPrefetch = 500'000'000;  // elements
  if (job_.sharding.double_buffer || job_.sharding.kind != job::ShardingKind::kMegatronFsdp) return 2;
  return std::min(layers, 1 + ceil_div(std::max(kLeastPrefetch, unit), std::max<std::int64_t>(1, unit)));
}

void State::gather_units(Tape& tape) {
  if (!job::shards_by_megatron_fsdp(job_) || !unit_buffers_.empty()) return;
  const job::MegatronFsdpStrategy strategy = job_.sharding.megatron_strategy;
  const bool params = strategy == job::MegatronFsdpStrategy::kOptimGradsParams;
  const bool grads = params || strategy == job::MegatronFsdpStrategy::kOptimGrads;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::int64_t layers = 0;
  for (const ChunkState& chunk : chunks_) {
    layers += chunk.layers;
    for (const Weight& w : chunk.weights) {
      if (!w.in_layer) continue;
      elements += w.elements;
      bytes += fsdp_param_bytes(w);
    }
  }
  if (layers == 0) return;
  const std::int64_t unit = elements / layers;
  constexpr std::int64_t kGradientUnits = 2;  // of the layer at work and of the one that is being reduced
  if (params)
    unit_buffers_.push_back(tape.alloc(units_in_flight(unit, layers) * (bytes / layers), Name::kUnshardedWeight));
  if (grads)
    unit_buffers_.push_back(
        tape.alloc(kGradientUnits * unit * job::size_of(job_.sharding.megatron_main_grads), Name::kReduceBucket));
}

}  // namespace plimsoll::step::megatron
