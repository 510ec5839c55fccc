// SPDX-License-Identifier: Apache-2.0
// Seconds of a batch: timing::predict() on bins as full as they are on average. Samples in a bin do not attend to
// each other, so attention costs the sum of their squared lengths and not the square of the bin (facts
// rl-and-inference.md 2); the attention part of the prediction is scaled by that ratio, and what waits for compute
// (bubbles) with the whole. An extra forward pass is a third of forward and backward.
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "lever/price.h"
#include "rl/trainer.h"

namespace plimsoll::rl {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

// Share of attention's seconds that a forward pass takes: 2 of 7 products at 0.6 against 0.5 of the peak
// (catalog/timing.json, Hopper).
constexpr double kAttentionForward = 2 / 0.6 / (2 / 0.6 + 5 / 0.5);
constexpr double kForwardShare = 1.0 / 3;

bool recomputes_attention(const job::Job& job) {
  return job.recompute.granularity == job::RecomputeGranularity::kFull ||
         (job.recompute.granularity == job::RecomputeGranularity::kSelective && job.recompute.modules.core_attn);
}

// The job on bins of `tokens`, `bins` per optimizer step.
Result<job::Job> filled(const job::Job& trainer, std::int64_t tokens, std::int64_t bins) {
  job::Job job = trainer;
  const std::int64_t unit = job.parallel.context * 2 * (job.parallel.sequence_parallel ? job.parallel.tensor : 1);
  job.batch.seq_length = std::clamp(round_up(tokens, unit), unit, std::max(unit, trainer.batch.seq_length));
  job.batch.accumulation = bins;
  if (job::complete(job)) return job;
  job.batch.accumulation = round_up(bins, job.parallel.pipeline);
  job.batch.seq_length = trainer.batch.seq_length;
  if (auto done = job::complete(job); !done) return tl::make_unexpected(std::move(done.error()));
  return job;
}

}  // namespace

void scale_attention(timing::Breakdown& parts, const job::Job& job, double share) {
  const auto compute = [&parts] {
    return parts.gemm + parts.attention + parts.memory + parts.recompute + parts.tensor + parts.context + parts.expert;
  };
  const double before = compute();
  if (before <= 0) return;
  if (recomputes_attention(job)) {
    const double again = std::min(parts.recompute, parts.attention * kAttentionForward);
    parts.recompute -= again * (1 - share);
  }
  parts.attention *= share;
  parts.bubble *= compute() / before;
}

Result<TrainerTime> trainer_time(const Run& run, const job::Job& trainer, Packed packed, const lever::World& world) {
  TrainerTime time;
  const std::int64_t ranks = trainer.data_parallel;
  packed.per_rank = ceil_div(std::max<std::int64_t>(1, packed.bins), ranks);
  packed.dealt = packed.per_rank * ranks;
  time.packed = packed;
  const Algorithm& algorithm = run.algorithm;
  const double tokens_per_bin = packed.padded_tokens / real(packed.bins);
  const std::int64_t minibatches = std::min(algorithm.minibatches, packed.per_rank);
  PLIMSOLL_TRY(job, filled(trainer, static_cast<std::int64_t>(tokens_per_bin), ceil_div(packed.per_rank, minibatches)));
  PLIMSOLL_TRY(step, lever::time_of(job, world));
  time.step = std::move(step);
  const double whole = real(packed.bins) * real(job.batch.seq_length) * real(job.batch.seq_length);
  time.attention_share = std::min(1.0, packed.square_tokens / whole);
  timing::Breakdown& parts = time.step.parts;
  scale_attention(parts, job, time.attention_share);
  time.step.seconds = parts.sum();
  const double steps = real(minibatches) * real(algorithm.epochs);
  const double without_update = time.step.seconds - parts.optimizer;
  time.forward_backward = steps * without_update;
  time.optimizer = steps * parts.optimizer;
  // A pass over the batch without gradients: no recomputation, no update, and of the rest a third.
  const double forward = real(minibatches) * (without_update - parts.recompute) * kForwardShare;
  time.extra_passes = forward * ((algorithm.logprob_pass ? 1 : 0) + (algorithm.reference_pass ? 1 : 0));
  if (algorithm.critic) time.critic = time.forward_backward + time.optimizer + forward;
  time.overhead = algorithm.overhead_seconds.value_or(0);
  time.seconds = time.forward_backward + time.optimizer + time.extra_passes + time.critic + time.overhead;
  time.tokens_per_second_per_gpu = packed.tokens / time.seconds / real(run.trainer_gpus);
  return time;
}

}  // namespace plimsoll::rl
