// SPDX-License-Identifier: Apache-2.0
#include "timing/step_time.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "step/megatron/weights.h"
#include "step/work.h"
#include "timing/chunks.h"
#include "timing/collectives.h"
#include "timing/interval.h"
#include "timing/pipeline.h"
#include "timing/state.h"

namespace plimsoll::timing {

namespace {

using job::Job;

double real(std::int64_t value) { return static_cast<double>(value); }

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

// The passes of every rank, and what they are made of.
struct PricedPipeline {
  PipelineTimes times;
  std::vector<ChunkCost> costs;     // of chunks that differ from the one before
  std::vector<std::uint32_t> cost;  // index of each chunk's

  [[nodiscard]] std::size_t slot(std::int64_t rank, std::int64_t chunk) const {
    return static_cast<std::size_t>(rank * times.chunks + chunk);
  }
};

PricedPipeline priced(const Job& job, const job::PipelineLayout& layout, const Prices& prices, PriceStore* store) {
  PricedPipeline result;
  PipelineTimes& times = result.times;
  times.stages = job.parallel.pipeline;
  times.chunks = static_cast<std::int64_t>(layout.ranks.front().size());
  times.micro_batches = std::max<std::int64_t>(1, job.micro_batches);
  times.group = job.parallel.microbatch_group_size.value_or(job.parallel.pipeline);
  times.gpipe = job.parallel.schedule == job::PipelineSchedule::kGpipe;
  times.extra_warmup = job.parallel.overlap_moe_expert_comm;
  times.overlapped = job.parallel.overlap_p2p;
  const auto passes = static_cast<std::size_t>(times.stages * times.chunks);
  result.cost.reserve(passes);
  times.forward.reserve(passes);
  times.backward.reserve(passes);
  ChunkPricer pricer(job, prices, store);
  const job::Chunk* known = nullptr;
  for (const auto& rank : layout.ranks) {
    for (const job::Chunk& chunk : rank) {
      if (known == nullptr || !pricer.alike(*known, chunk)) result.costs.push_back(pricer.price_chunk(chunk));
      known = &chunk;
      result.cost.push_back(static_cast<std::uint32_t>(result.costs.size() - 1));
      times.forward.push_back(result.costs.back().forward_seconds);
      times.backward.push_back(result.costs.back().backward_seconds);
    }
  }
  return result;
}

// The compute of one rank, by kind, and what its host and its offload add.
void add_rank(const PricedPipeline& pipeline, std::int64_t rank, double computing, Breakdown& parts) {
  const auto m = real(pipeline.times.micro_batches);
  double offload = 0;
  for (std::int64_t c = 0; c < pipeline.times.chunks; ++c) {
    const ChunkCost& cost = pipeline.costs[pipeline.cost[pipeline.slot(rank, c)]];
    add_compute(cost, m, parts);
    offload += cost.offload_seconds * m;
  }
  const double gpu = parts.sum();
  parts.offload = offload;
  parts.host = std::max(0.0, computing - gpu - offload);
}

// Of every rank, or of one alone: the slowest update and the longest exposed messages.
StateCost slowest_state(const Job& job, const job::PipelineLayout& layout, const Machine& machine,
                        const PricedPipeline& pipeline, const Options& options) {
  StateCost state;
  const ElementCounter elements(job);
  for (std::int64_t r = 0; r < pipeline.times.stages; ++r) {
    if (options.alone && r != options.rank) continue;
    Window window;
    for (std::int64_t c = 0; c < pipeline.times.chunks; ++c) {
      window.forward += pipeline.times.forward[pipeline.slot(r, c)];
      window.backward += pipeline.times.backward[pipeline.slot(r, c)];
    }
    const Elements held = elements.of(layout.ranks[static_cast<std::size_t>(r)]);
    const StateCost one = state_cost(job, machine, held, window, options.alone);
    state.data = std::max(state.data, one.data);
    state.optimizer = std::max(state.optimizer, one.optimizer);
    state.offload = std::max(state.offload, one.offload);
  }
  return state;
}

// A recorded rank has no data to load, no log and no barrier: what is left is the Python around its optimizer, for
// every weight of which it owns a part, beside the update itself.
double update_of_rank(const Job& job, const job::PipelineLayout& layout, const Machine& machine, std::int64_t rank,
                      double update) {
  std::vector<step::megatron::Weight> weights;
  double held = 0;
  for (const job::Chunk& chunk : layout.ranks[static_cast<std::size_t>(rank)]) {
    step::megatron::chunk_weights(job, chunk, rank, weights);
    held += real(static_cast<std::int64_t>(weights.size()));
  }
  const double owned = job.optimizer.distributed ? held / real(std::max<std::int64_t>(1, job.data_parallel)) : held;
  const Calibration& c = *machine.calibration;
  const double speed = machine.host_speed_for(job);
  return c.host_rank_step / speed + std::max(0.0, owned * c.host_rank_weight / speed - update);
}

void set_rates(const Job& job, const Machine& machine, Number number, StepTime& result) {
  const double tokens = real(job.batch.seq_length) * real(job.batch.micro_batch) *
                        real(std::max<std::int64_t>(1, job.micro_batches)) * real(job.data_parallel);
  result.flops_per_token = step::model_flops_per_token(job);
  result.tokens_per_second_per_gpu = tokens / result.seconds / real(std::max<std::int64_t>(1, job.cluster.gpus));
  const double flops = result.tokens_per_second_per_gpu * result.flops_per_token;
  result.tflops_per_gpu = flops / 1e12;
  result.mfu = flops / machine.peak[static_cast<std::size_t>(number)];
  const double share = relative_interval(job, result.parts.host / result.seconds,
                                         machine.host_is_measured ? Host::kMeasured : Host::kUsual);
  result.low = result.seconds * (1 - share);
  result.high = result.seconds * (1 + share);
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
  PricedPipeline pipeline = priced(job, layout, prices, options.known);
  PipelineTimes& times = pipeline.times;
  StepTime result;
  Breakdown& parts = result.parts;
  result.rank_seconds.reserve(static_cast<std::size_t>(times.stages));
  for (std::int64_t r = 0; r < times.stages; ++r) result.rank_seconds.push_back(busy(times, r));
  const auto longest = std::max_element(result.rank_seconds.begin(), result.rank_seconds.end());
  const std::int64_t rank = options.alone ? options.rank : longest - result.rank_seconds.begin();
  const double computing = result.rank_seconds[static_cast<std::size_t>(rank)];
  add_rank(pipeline, rank, computing, parts);
  if (!options.alone && times.stages > 1) {
    const auto span = options.detail == Detail::kFull ? simulate : closed_form;
    const double without = span(times);
    parts.bubble = without - computing;
    times.hop = hop_of(job, machine);
    parts.pipeline = std::max(0.0, span(times) - without);
  }
  const StateCost state = slowest_state(job, layout, machine, pipeline, options);
  parts.data = state.data;
  parts.optimizer = state.optimizer;
  parts.offload += state.offload;
  const Calibration& c = *machine.calibration;
  if (options.alone && job.is_megatron()) {
    parts.host += update_of_rank(job, layout, machine, rank, parts.optimizer);
  } else {
    parts.host += (job.is_megatron() ? c.step_overhead : c.step_overhead_trainer) / machine.host_speed_for(job);
  }
  // The Trainer waits for the loss before it updates, so the launches of the update start with an idle GPU.
  const double tensors = pipeline.costs.front().tensors;
  parts.host += std::max(0.0, tensors * c.host_eager_update / machine.host_speed - parts.optimizer);
  // Clocks, temperatures and networks differ: every barrier waits for the slowest of the GPUs.
  constexpr double kFewGpus = 8;
  if (!options.alone && real(job.cluster.gpus) > kFewGpus)
    parts.data += c.straggler * std::log2(real(job.cluster.gpus) / kFewGpus) * parts.sum();
  result.seconds = parts.sum();
  if (options.detail == Detail::kFull) set_rates(job, machine, prices.number, result);
  return result;
}

PipelineTimes pipeline_times(const Job& job, const job::PipelineLayout& layout, const Machine& machine) {
  PipelineTimes times = priced(job, layout, Prices(job, machine, false), nullptr).times;
  times.hop = hop_of(job, machine);
  return times;
}

Result<StepTime> predict(const Job& job, const Options& options) {
  if (options.calibration != nullptr) PLIMSOLL_TRY_STATUS(check_gpu(*options.calibration, job.cluster.gpu));
  PLIMSOLL_TRY(layout, job::pipeline_layout(job));
  if (options.rank < 0 || options.rank >= job.parallel.pipeline)
    return bad_input(
        fmt::format("rank pp={}: the job has pipeline ranks 0 to {}", options.rank, job.parallel.pipeline - 1));
  const Machine machine(job.cluster, options.calibration != nullptr ? *options.calibration : built_in());
  return predict(job, layout, machine, options);
}

}  // namespace plimsoll::timing
