// SPDX-License-Identifier: Apache-2.0
#include "timing/step_time.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "step/work.h"
#include "timing/collectives.h"
#include "timing/interval.h"
#include "timing/offload.h"
#include "timing/passes.h"
#include "timing/pipeline.h"
#include "timing/state.h"

namespace plimsoll::timing {

namespace {

using job::Job;

double real(std::int64_t value) { return static_cast<double>(value); }

// Costs of one micro-batch on one chunk.
struct ChunkCost {
  Parts forward;
  Parts backward;
  Parts replay;
  double offloaded = 0;  // bytes that leave and come back

  void add(const PassCost& cost, bool replays) {
    forward += cost.forward;
    backward += cost.backward;
    if (replays) replay += cost.replay;
  }
};

// The priced layers of a job: one price per kind of layer, in the quantised recipe or exempt from it.
class Layers {
 public:
  Layers(const Job& job, const Prices& prices) : job_(job), prices_(prices), costs_(job.model.kinds.size() * 2) {
    step::embedding_work(job, list_);
    embedding_ = price(job, prices, list_);
    step::head_work(job, list_);
    head_ = price(job, prices, list_);
    if (job.model.mtp_layers > 0) {
      step::mtp_projection_work(job, list_);
      mtp_ = price(job, prices, list_);
    }
    quantised_ = job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4;
    offloaded_ = offloaded_bytes_per_layer(job);
  }

  ChunkCost chunk(const job::Chunk& chunk) {
    ChunkCost cost;
    const job::Recompute& r = job_.recompute;
    const bool full = r.granularity == job::RecomputeGranularity::kFull;
    const std::int64_t n = std::max<std::int64_t>(1, r.num_layers);
    for (std::int64_t i = 0; i < chunk.num_layers; ++i) {
      bool replays = true;
      if (full && r.method == job::RecomputeMethod::kBlock) replays = i < n;
      if (full && r.every_nth_layer > 1) replays = (chunk.first_layer + i) % r.every_nth_layer == 0;
      cost.add(layer(chunk.first_layer + i), replays);
      if (!job_.offload.activations || chunk.first_layer + i < job_.offload.activation_layers)
        cost.offloaded += offloaded_;
    }
    if (chunk.has_embedding) cost.add(embedding_, false);
    if (chunk.has_loss) cost.add(head_, false);
    for (std::int64_t i = 0; i < chunk.mtp_layers; ++i) {
      cost.add(layer(job_.model.depth() - 1), full);
      cost.add(mtp_, false);
      cost.add(head_, false);
    }
    return cost;
  }

 private:
  const PassCost& layer(std::int64_t index) {
    const job::Precision& p = job_.precision;
    const bool edge = p.first_last_layers_bf16 &&
                      (index < p.bf16_layers_at_start || index >= job_.model.depth() - p.bf16_layers_at_end);
    const std::size_t kind = job_.model.layers[static_cast<std::size_t>(index)];
    Slot& slot = costs_[kind * 2 + (quantised_ && edge ? 1 : 0)];
    if (!slot.known) {
      step::layer_work(job_, job_.model.kinds[kind], edge, list_);
      slot = {price(job_, prices_, list_), true};
    }
    return slot.cost;
  }

  struct Slot {
    PassCost cost;
    bool known = false;
  };
  const Job& job_;
  const Prices& prices_;
  step::WorkList list_;  // one room for all: a list is long
  std::vector<Slot> costs_;
  PassCost embedding_, head_, mtp_;
  bool quantised_ = false;
  double offloaded_ = 0;
};

// The GPU runs what the host launched; whichever needs longer sets the pace, softly where they are close.
double paced(double gpu, double host, double exponent) {
  if (gpu <= 0 || host <= 0) return std::max(gpu, host);
  const double ratio = std::min(gpu, host) / std::max(gpu, host);
  if (ratio < 0.3) return std::max(gpu, host);
  return std::max(gpu, host) * std::pow(1 + std::pow(ratio, exponent), 1 / exponent);
}

struct Pass {
  double forward = 0;
  double backward = 0;  // replay included
  double offload = 0;
};

Pass pass_of(const Job& job, const Machine& machine, const ChunkCost& cost) {
  const double ahead = cost.forward.gpu();
  const double back = cost.backward.gpu() + cost.replay.gpu();
  const double gpu = ahead + back;
  const double host = cost.forward.host + cost.backward.host + cost.replay.host;
  const double seconds = paced(gpu, host, machine.calibration->host_overlap);
  const double stretch = gpu > 0 ? seconds / gpu : 1;
  Pass pass{ahead * stretch, back * stretch, 0};
  if (cost.offloaded > 0) {
    const OffloadCost off = offload_cost(job, machine, cost.offloaded, pass.forward, pass.backward);
    pass.forward += off.forward;
    pass.backward += off.backward;
    pass.offload = off.forward + off.backward;
  }
  return pass;
}

double hop_of(const Job& job, const Machine& machine) {
  if (job.parallel.pipeline <= 1) return 0;
  const std::int64_t stride = job.parallel.dp_outermost
                                  ? job.parallel.tensor * job.parallel.context
                                  : std::max<std::int64_t>(1, job.cluster.gpus / job.parallel.pipeline);
  const double split = job.parallel.sequence_parallel ? real(job.parallel.tensor) : 1;
  const double bytes = real(job.tokens()) * real(job.model.hidden) * real(job::size_of(job.precision.compute)) / split;
  return hop_seconds(machine, stride >= machine.domain, bytes);
}

void add_compute(const ChunkCost& cost, double n, Breakdown& parts) {
  for (const Parts* p : {&cost.forward, &cost.backward}) {
    parts.gemm += p->gemm * n;
    parts.attention += p->attention * n;
    parts.memory += p->memory * n;
    parts.tensor += p->tensor * n;
    parts.context += p->context * n;
    parts.expert += p->expert * n;
  }
  parts.recompute += cost.replay.gpu() * n;
}

}  // namespace

double Breakdown::sum() const {
  double total = 0;
  for (const NamedPart& part : named_parts()) total += this->*part.field;
  return total;
}

const std::array<NamedPart, 13>& named_parts() {
  static constexpr std::array<NamedPart, 13> kParts = {{
      {"gemm", "matrix products", &Breakdown::gemm},
      {"attention", "attention", &Breakdown::attention},
      {"memory_bound", "memory-bound kernels", &Breakdown::memory},
      {"recompute", "recompute", &Breakdown::recompute},
      {"optimizer", "optimizer", &Breakdown::optimizer},
      {"tp", "TP/SP messages, exposed", &Breakdown::tensor},
      {"cp", "CP messages, exposed", &Breakdown::context},
      {"ep", "EP messages, exposed", &Breakdown::expert},
      {"dp", "DP messages, exposed", &Breakdown::data},
      {"pp", "PP messages, exposed", &Breakdown::pipeline},
      {"offload", "offload, exposed", &Breakdown::offload},
      {"bubble", "pipeline bubble", &Breakdown::bubble},
      {"host", "host", &Breakdown::host},
  }};
  return kParts;
}

StepTime predict(const Job& job, const job::PipelineLayout& layout, const Machine& machine, const Options& options) {
  const Prices prices(job, machine, options.alone);
  Layers layers(job, prices);
  PipelineTimes times;
  times.stages = job.parallel.pipeline;
  times.chunks = static_cast<std::int64_t>(layout.ranks.front().size());
  times.micro_batches = std::max<std::int64_t>(1, job.micro_batches);
  times.group = job.parallel.microbatch_group_size.value_or(job.parallel.pipeline);
  times.gpipe = job.parallel.schedule == job::PipelineSchedule::kGpipe;
  times.extra_warmup = job.parallel.overlap_moe_expert_comm;
  times.overlapped = job.parallel.overlap_p2p;
  const auto passes = static_cast<std::size_t>(times.stages * times.chunks);
  std::vector<ChunkCost> costs;
  costs.reserve(passes);
  times.forward.reserve(passes);
  times.backward.reserve(passes);
  std::vector<double> offloads;
  offloads.reserve(passes);
  const job::Chunk* known = nullptr;
  for (const auto& rank : layout.ranks) {
    for (const job::Chunk& chunk : rank) {
      // Chunks of one size in a model of one kind of layer cost the same.
      const bool same = known != nullptr && job.model.kinds.size() == 1 && !job.precision.first_last_layers_bf16 &&
                        !job.offload.activations && job.recompute.every_nth_layer <= 1 &&
                        known->num_layers == chunk.num_layers && known->has_embedding == chunk.has_embedding &&
                        known->has_loss == chunk.has_loss && known->mtp_layers == chunk.mtp_layers;
      if (same) {
        costs.push_back(costs.back());
        times.forward.push_back(times.forward.back());
        times.backward.push_back(times.backward.back());
        offloads.push_back(offloads.back());
        continue;
      }
      costs.push_back(layers.chunk(chunk));
      const Pass pass = pass_of(job, machine, costs.back());
      times.forward.push_back(pass.forward);
      times.backward.push_back(pass.backward);
      offloads.push_back(pass.offload);
      known = &chunk;
    }
  }

  StepTime result;
  Breakdown& parts = result.parts;
  for (std::int64_t r = 0; r < times.stages; ++r) result.rank_seconds.push_back(busy(times, r));
  const std::int64_t rank = options.alone ? options.rank : slowest(times);
  const double m = real(times.micro_batches);
  const double computing = result.rank_seconds[static_cast<std::size_t>(rank)];
  double offload = 0;
  for (std::int64_t c = 0; c < times.chunks; ++c) {
    const auto slot = static_cast<std::size_t>(rank * times.chunks + c);
    add_compute(costs[slot], m, parts);
    offload += offloads[slot] * m;
  }
  const double gpu = parts.sum();
  parts.offload = offload;
  parts.host = std::max(0.0, computing - gpu - offload);
  if (!options.alone && times.stages > 1) {
    const auto span = options.detail == Detail::kFull ? simulate : closed_form;
    const double without = span(times);
    parts.bubble = without - computing;
    times.hop = hop_of(job, machine);
    parts.pipeline = std::max(0.0, span(times) - without);
  }
  StateCost state;
  const ElementCounter elements(job);
  for (std::int64_t r = 0; r < times.stages; ++r) {
    if (options.alone && r != rank) continue;
    Window window;
    for (std::int64_t c = 0; c < times.chunks; ++c) {
      const auto slot = static_cast<std::size_t>(r * times.chunks + c);
      window.forward += times.forward[slot];
      window.backward += times.backward[slot];
    }
    const StateCost one =
        state_cost(job, machine, elements.of(layout.ranks[static_cast<std::size_t>(r)]), window, options.alone);
    state.data = std::max(state.data, one.data);
    state.optimizer = std::max(state.optimizer, one.optimizer);
  }
  parts.data = state.data;
  parts.optimizer = state.optimizer;
  // A recorded rank has no data to load, no log and no barrier: what is left is the Python of its optimizer.
  constexpr double kAlone = 1.0 / 3;
  parts.host += (options.alone ? kAlone : 1) * machine.calibration->step_overhead / machine.host_speed;

  result.seconds = parts.sum();
  const double tokens = real(job.batch.seq_length) * real(job.batch.micro_batch) * m * real(job.data_parallel);
  result.flops_per_token = step::model_flops_per_token(job);
  result.tokens_per_second_per_gpu = tokens / result.seconds / real(std::max<std::int64_t>(1, job.cluster.gpus));
  const double flops = result.tokens_per_second_per_gpu * result.flops_per_token;
  result.tflops_per_gpu = flops / 1e12;
  result.mfu = flops / machine.peak[static_cast<std::size_t>(prices.number)];
  const double share = relative_interval(job, parts.host / result.seconds);
  result.low = result.seconds * (1 - share);
  result.high = result.seconds * (1 + share);
  return result;
}

Result<StepTime> predict(const Job& job, const Options& options) {
  PLIMSOLL_TRY(layout, job::pipeline_layout(job));
  if (options.rank < 0 || options.rank >= job.parallel.pipeline)
    return bad_input(
        fmt::format("rank pp={}: the job has pipeline ranks 0 to {}", options.rank, job.parallel.pipeline - 1));
  const Machine machine(job.cluster, built_in());
  return predict(job, layout, machine, options);
}

}  // namespace plimsoll::timing
