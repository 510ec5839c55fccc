// SPDX-License-Identifier: Apache-2.0
#include "timing/chunks.h"

#include <algorithm>

#include "timing/collectives.h"
#include "timing/eager.h"
#include "timing/kernels.h"
#include "timing/offload.h"
#include "timing/queue.h"

namespace plimsoll::timing {

namespace {

// Delayed scaling ends every pass of a chunk with the largest elements of all its tensors: put together, reduced over
// every rank of the stage, and made into scales (facts step-time.md 3).
Parts reduction_of_amax(const job::Job& job, const Prices& prices) {
  const Machine& machine = *prices.machine;
  constexpr double kCalls = 2;
  constexpr double kBytes = 4096;
  const std::int64_t stage =
      std::max<std::int64_t>(1, job.cluster.gpus / std::max<std::int64_t>(1, job.parallel.pipeline));
  const bool captured = job.kernels.cuda_graphs == job::CudaGraphs::kFullIteration;
  Parts parts;
  parts.memory = stream_seconds(machine, 0, kCalls);
  if (!prices.alone) parts.memory += all_reduce_seconds(machine, span_of(machine, stage, 1), kBytes);
  parts.host = kCalls * (captured ? prices.host_graph_kernel : prices.host_kernel);
  if (stage > 1) parts.host += prices.host_message * (captured ? machine.calibration->host_graph : 1);
  return parts;
}

}  // namespace

ChunkPricer::ChunkPricer(const job::Job& job, const Prices& prices, PriceStore* known)
    : job_(job), prices_(prices), known_(known), costs_(job.model.kinds.size() * 2) {
  eager_ = runs_eagerly(job);
  if (eager_) {  // the ends count as one
    launches_ = step::transformers::launches_of(job);
    costs_.resize(launches_.kinds.size() * 2);
    head_ = price_eager(job, prices, launches_.ends);
    head_.replay = {};
  } else {
    step::embedding_work(job, list_);
    embedding_ = priced();
    step::head_work(job, list_);
    head_ = priced();
  }
  if (job.model.mtp_layers > 0) {
    step::mtp_projection_work(job, list_);
    mtp_ = priced();
  }
  quantised_ = job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4;
  uniform_ = costs_.size() == 2 && !job.precision.first_last_layers_bf16 && !job.offload.activations &&
             job.recompute.every_nth_layer <= 1;
  offloaded_ = offloaded_bytes_per_layer(job);
  if (job.precision.fp8 == job::Fp8Recipe::kDelayed && job.is_megatron()) amax_ = reduction_of_amax(job, prices);
}

PassCost ChunkPricer::priced() const {
  return known_ != nullptr ? known_->price(job_, prices_, list_) : price(job_, prices_, list_);
}

bool ChunkPricer::alike(const job::Chunk& a, const job::Chunk& b) const {
  return uniform_ && a.num_layers == b.num_layers && a.has_embedding == b.has_embedding && a.has_loss == b.has_loss &&
         a.mtp_layers == b.mtp_layers;
}

ChunkCost ChunkPricer::price_chunk(const job::Chunk& chunk) {
  ChunkCost cost;
  const job::Recompute& r = job_.recompute;
  const bool full = r.granularity == job::RecomputeGranularity::kFull;
  const std::int64_t n = std::max<std::int64_t>(1, r.num_layers);
  const bool by_blocks = full && r.method == job::RecomputeMethod::kBlock;
  // Neighbours of one kind are added at once, whatever sets them apart: the same layers sum to the same digits.
  for (std::int64_t i = 0; i < chunk.num_layers;) {
    const PassCost& each = layer(chunk.first_layer + i);
    const std::int64_t begin = i;
    std::int64_t replayed = 0;
    std::int64_t offloaded = 0;
    if (uniform_) {
      replayed = by_blocks ? std::min(n, chunk.num_layers) : chunk.num_layers;
      offloaded = i = chunk.num_layers;
    }
    for (; i < chunk.num_layers && &layer(chunk.first_layer + i) == &each; ++i) {
      bool replays = !by_blocks || i < n;
      if (full && r.every_nth_layer > 1) replays = (chunk.first_layer + i) % r.every_nth_layer == 0;
      replayed += replays ? 1 : 0;
      offloaded += !job_.offload.activations || chunk.first_layer + i < job_.offload.activation_layers ? 1 : 0;
    }
    cost.add(each, static_cast<double>(i - begin), static_cast<double>(replayed));
    cost.offloaded += offloaded_ * static_cast<double>(offloaded);
  }
  if (chunk.has_embedding) cost.add(embedding_, false);
  if (chunk.has_loss) cost.add(head_, false);
  for (std::int64_t i = 0; i < chunk.mtp_layers; ++i) {
    for (const std::uint8_t kind : job_.model.mtp_depth()) cost.add(layer_of(kind, job_.model.depth() - 1), full);
    cost.add(mtp_, false);
    cost.add(head_, false);
  }
  if (quantised_ && chunk.num_layers > 0) {
    cost.forward += amax_;
    cost.backward += amax_;
  }
  set_seconds(cost);
  return cost;
}

const PassCost& ChunkPricer::layer(std::int64_t index) {
  const auto depth = static_cast<std::size_t>(index);
  return layer_of(eager_ ? launches_.of_layer[depth] : job_.model.layers[depth], index);
}

const PassCost& ChunkPricer::layer_of(std::size_t kind, std::int64_t index) {
  const job::Precision& p = job_.precision;
  const bool edge = p.first_last_layers_bf16 &&
                    (index < p.bf16_layers_at_start || index >= job_.model.depth() - p.bf16_layers_at_end);
  Slot& slot = costs_[kind * 2 + (quantised_ && edge ? 1 : 0)];
  if (!slot.known && eager_) {
    slot = {price_eager(job_, prices_, launches_.kinds[kind]), true};
  } else if (!slot.known) {
    step::layer_work(job_, job_.model.kinds[kind], edge, list_);
    slot = {priced(), true};
  }
  return slot.cost;
}

// The host runs ahead of the GPU as far as it can: a pass ends when the GPU has worked off what was queued, and not
// before the host has launched its last kernel. The loss is read at the end, so nothing is carried on.
void ChunkPricer::set_queued(ChunkCost& cost) const {
  const double ahead = cost.forward.gpu();
  const double back = cost.backward.gpu() + cost.replay.gpu();
  const double host_ahead = cost.forward.host;
  const double host = host_ahead + cost.backward.host + cost.replay.host;
  cost.forward_seconds = free_running_seconds(host_ahead, ahead);
  cost.backward_seconds = free_running_seconds(host, cost.forward_seconds + back) - cost.forward_seconds;
  cost.forward_seconds += cost.forward.serial;
  cost.backward_seconds += cost.backward.serial + cost.replay.serial;
}

// The matrix units draw the most power: where they fill the time, the limit lowers the clock.
void ChunkPricer::limit_power(ChunkCost& cost) const {
  const double gpu = cost.forward.gpu() + cost.backward.gpu() + cost.replay.gpu();
  const bool plain = job_.precision.compute == job::DType::kFp32 && !job_.precision.autocast;
  if (gpu <= 0 || plain) return;
  const double products = cost.forward.gemm + cost.backward.gemm + cost.replay.gemm;
  const double slower = 1 + prices_.machine->power * products / gpu;
  for (Parts* parts : {&cost.forward, &cost.backward, &cost.replay}) parts->gemm *= slower;
}

void ChunkPricer::set_seconds(ChunkCost& cost) const {
  const Machine& machine = *prices_.machine;
  limit_power(cost);
  const double ahead = cost.forward.gpu();
  const double back = cost.backward.gpu() + cost.replay.gpu();
  const double gpu = ahead + back;
  const double host = cost.forward.host + cost.backward.host + cost.replay.host;
  if (eager_) {
    set_queued(cost);
    return;
  }
  if (cost.forward.serial > 0) {
    // A host that waited in the forward enters the backward without a lead.
    cost.forward_seconds = free_running_seconds(cost.forward.host, ahead) + cost.forward.serial;
    cost.backward_seconds = free_running_seconds(host - cost.forward.host, back) + cost.replay.serial;
  } else {
    const double stretch = gpu > 0 ? free_running_seconds(host, gpu) / gpu : 1;
    cost.forward_seconds = ahead * stretch;
    cost.backward_seconds = back * stretch;
  }
  if (cost.offloaded <= 0) return;
  const OffloadCost off = offload_cost(job_, machine, cost.offloaded, cost.forward_seconds, cost.backward_seconds);
  cost.forward_seconds += off.forward;
  cost.backward_seconds += off.backward;
  cost.offload_seconds = off.forward + off.backward;
}

}  // namespace plimsoll::timing
