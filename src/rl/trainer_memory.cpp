// SPDX-License-Identifier: Apache-2.0
// gather peak = states - freed gradients + copy; broadcast peak = states + gradients + copy on the GPU + bucket;
// step peak as `fit` finds it; the largest counts (facts rl-and-inference.md 1, "Trainer memory peak at weight sync").
#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "job/effective.h"
#include "model/parameters.h"
#include "rl/trainer.h"

namespace plimsoll::rl {

namespace {

std::int64_t row(const memory::RankAnswer& rank, std::string_view name) {
  for (const memory::Row& one : rank.table)
    if (one.name == name) return one.bytes;
  return 0;
}

struct States {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
};

// Between steps. Megatron's gradient buffer has an element for each parameter of the rank; FSDP and ZeRO 3 hold only
// their shards then, while the table of the step has gathered layers among its rows.
States states_of(const job::Job& job, const memory::RankAnswer& rank) {
  if (job.is_megatron()) {
    const std::int64_t size = job.optimizer.grad_reduce_in_fp32 ? 4 : job::size_of(job.precision.params);
    return {row(rank, "parameters"), rank.parameters * size, row(rank, "optimizer state")};
  }
  const std::int64_t ranks =
      std::max<std::int64_t>(1, job.data_parallel / std::max<std::int64_t>(1, job.sharding.replicas));
  const std::int64_t elements = model::count_parameters(job.model).total / job.parallel.tensor / job.parallel.pipeline;
  const std::int64_t shard = elements / ranks;
  const bool fsdp = job.sharding.kind == job::ShardingKind::kFsdp2 || job.sharding.kind == job::ShardingKind::kFsdp1;
  const std::int64_t stored = fsdp ? job::size_of(job.sharding.stored) : job::size_of(job.precision.params);
  const bool master = !fsdp && job.precision.params != job::DType::kFp32;
  States states;
  states.parameters = job.sharding.cpu_offload ? 0 : shard * stored;
  states.gradients = job.sharding.cpu_offload ? 0 : shard * stored;
  const std::int64_t moments = job::size_of(job.optimizer.exp_avg) + job::size_of(job.optimizer.exp_avg_sq);
  const bool on_host = job.sharding.cpu_offload || job::optimizer_offload(job.sharding) != job::OffloadTarget::kNone;
  states.optimizer = on_host ? 0 : shard * (moments + (master ? 4 : 0));
  return states;
}

// What the gather leaves on the broadcasting GPU. Telescope keeps the whole model: FSDP in the dtype of the shards on
// every rank, Megatron as a bf16 copy unless it is staged to the host. Others send bucket by bucket, two at a time.
std::int64_t copy_on_gpu(const Run& run, const job::Job& job) {
  if (run.framework != Framework::kTelescope) return 0;
  const std::int64_t elements = model::count_parameters(run.model.layers.empty() ? job.model : run.model).total;
  if (job.is_megatron()) return run.sync.cpu_staging ? 0 : 2 * elements;
  return elements * job::size_of(job.sharding.stored);
}

std::string described(const std::vector<std::pair<std::string, std::int64_t>>& parts) {
  std::vector<std::string> words;
  for (const auto& [name, bytes] : parts)
    if (bytes != 0) words.push_back(fmt::format("{} {}", name, format_bytes(bytes)));
  return join(words, " + ");
}

}  // namespace

Result<TrainerMemory> trainer_memory(const Run& run, const job::Job& trainer) {
  PLIMSOLL_TRY(answer, memory::answer(trainer, {}));
  TrainerMemory result;
  result.rank = answer.ranks[answer.worst];
  result.capacity = result.rank.capacity;
  result.warnings = answer.warnings;
  const States states = states_of(trainer, result.rank);
  result.parameters = states.parameters;
  result.gradients = states.gradients;
  result.optimizer = states.optimizer;
  // NeMo-RL swaps the reference in from the host for its pass.
  if (run.algorithm.reference_pass && run.framework != Framework::kNemoRl) result.reference = states.parameters;
  if (run.algorithm.critic) result.critic = states.parameters + states.gradients + states.optimizer;
  result.copy = copy_on_gpu(run, trainer);
  const bool whole = run.framework == Framework::kTelescope;
  result.bucket = run.sync.mode == SyncMode::kPerTensor ? 0 : run.sync.bucket_bytes * (whole ? 1 : 2);
  const std::int64_t beside = result.rank.outside + result.reference + result.critic;
  const std::int64_t held = states.parameters + states.optimizer + beside;
  const bool frees = trainer.is_megatron() && run.sync.free_grad_buffers;
  const std::int64_t kept = frees ? 0 : states.gradients;
  result.peaks.push_back(
      {"training step", result.rank.device_used + result.reference + result.critic,
       described({{"step", result.rank.device_used}, {"reference", result.reference}, {"critic", result.critic}})});
  result.peaks.push_back({"gather of the weights", held + kept + result.copy,
                          described({{"states", held}, {"gradients", kept}, {"gathered copy", result.copy}})});
  // Staging moves an FSDP copy to the host only after the gather, on one rank; gradients are back by then.
  const std::int64_t sent = run.sync.cpu_staging ? 0 : result.copy;
  result.peaks.push_back(
      {"broadcast of the weights", held + states.gradients + sent + result.bucket,
       described(
           {{"states", held}, {"gradients", states.gradients}, {"gathered copy", sent}, {"bucket", result.bucket}})});
  for (std::size_t i = 0; i < result.peaks.size(); ++i)
    if (result.peaks[i].bytes > result.peaks[result.highest].bytes) result.highest = i;
  result.fits = answer.fits && result.peak() <= result.capacity;
  return result;
}

}  // namespace plimsoll::rl
