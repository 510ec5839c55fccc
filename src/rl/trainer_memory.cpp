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

// Bytes on a GPU between steps.
struct States {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t critic = 0;  // of a model of the same size that is trained whole, whatever adapters the policy has

  [[nodiscard]] std::int64_t sum() const { return parameters + gradients + optimizer; }
};

bool adapts(const job::Job& job) { return job.adapter.kind != job::AdapterKind::kNone; }

bool keeps_whole_buffers(const job::Job& job) { return job.is_megatron() && !job::shards_by_megatron_fsdp(job); }

std::int64_t gradient_size(const job::Job& job) {
  return job.optimizer.grad_reduce_in_fp32 ? 4 : job::size_of(job.precision.params);
}

std::int64_t moment_bytes(const job::Job& job) {
  return job::size_of(job.optimizer.exp_avg) + job::size_of(job.optimizer.exp_avg_sq);
}

// FSDP and ZeRO 3 hold only their shards between steps, while the table of a step has gathered layers among its rows.
// Ranks that share a sequence (context parallelism, Ulysses) share the shards too.
States sharded_states(const job::Job& job) {
  const std::int64_t ranks = std::max<std::int64_t>(
      1, job.data_parallel * job.parallel.context / std::max<std::int64_t>(1, job.sharding.replicas));
  const std::int64_t elements = model::count_parameters(job.model).total / job.parallel.tensor / job.parallel.pipeline;
  const std::int64_t shard = elements / ranks;
  const bool fsdp = job.sharding.kind == job::ShardingKind::kFsdp2 || job.sharding.kind == job::ShardingKind::kFsdp1;
  const std::int64_t stored = fsdp ? job::size_of(job.sharding.stored) : job::size_of(job.precision.params);
  const bool master = !fsdp && job.precision.params != job::DType::kFp32;
  States states;
  states.parameters = job.sharding.cpu_offload ? 0 : shard * stored;
  states.gradients = job.sharding.cpu_offload ? 0 : shard * stored;
  const bool on_host = job.sharding.cpu_offload || job::optimizer_offload(job.sharding) != job::OffloadTarget::kNone;
  states.optimizer = on_host ? 0 : shard * (moment_bytes(job) + (master ? 4 : 0));
  return states;
}

// Gradients and states of adapters alone: what the step's own table has of states, and gradients in proportion.
States of_adapters(const job::Job& job, States states, std::int64_t optimizer) {
  states.critic = states.sum();
  const std::int64_t each = moment_bytes(job) + (job.precision.params == job::DType::kFp32 ? 0 : 4);
  states.optimizer = optimizer;
  states.gradients = optimizer / std::max<std::int64_t>(1, each) * gradient_size(job);
  return states;
}

// Megatron's gradient buffer has an element for each parameter of the rank that is trained.
States states_of(const job::Job& job, const memory::RankAnswer& rank) {
  States states = keeps_whole_buffers(job) ? States{row(rank, "parameters"), rank.parameters * gradient_size(job),
                                                    row(rank, "optimizer state"), 0}
                                           : sharded_states(job);
  if (adapts(job)) return of_adapters(job, states, row(rank, "optimizer state"));
  states.critic = states.sum();
  return states;
}

// Parameters of a rank that has its even share of everything, which the fullest rank has at least.
std::int64_t even_share(const job::Job& job) {
  std::int64_t experts = 0;
  for (std::int64_t i = 0; i < job.model.depth(); ++i) {
    const model::FeedForward& ffn = job.model.layer(i).ffn;
    experts += ffn.experts * model::expert_parameters(job.model, ffn);
  }
  const job::Parallel& parallel = job.parallel;
  const std::int64_t rest = model::count_parameters(job.model).total - experts;
  return (rest / parallel.tensor + experts / (parallel.expert * job.expert_tensor())) / parallel.pipeline;
}

States even_states(const job::Job& job) {
  if (!keeps_whole_buffers(job)) return sharded_states(job);
  const std::int64_t here = even_share(job);
  const std::int64_t sharers = job.optimizer.distributed ? job.data_parallel * job.parallel.context : 1;
  const double on_gpu = 1 - job.optimizer.cpu_offload_fraction;
  const std::int64_t moments = here * moment_bytes(job) / sharers;
  return {here * job::size_of(job.precision.params), here * gradient_size(job),
          static_cast<std::int64_t>(static_cast<double>(moments) * on_gpu), 0};
}

// The least that any rank has: adapters may be as small as they like.
States least_states(const job::Job& job) {
  States states = even_states(job);
  if (adapts(job)) return of_adapters(job, states, 0);
  states.critic = states.sum();
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

// Everything but the walked rank: `step` and `outside` are its device memory and what of that lies beside PyTorch.
TrainerMemory account(const Run& run, const job::Job& trainer, const States& states, std::int64_t step,
                      std::int64_t outside) {
  TrainerMemory result;
  result.parameters = states.parameters;
  result.gradients = states.gradients;
  result.optimizer = states.optimizer;
  // NeMo-RL swaps the reference in from the host for its pass.
  // Without its adapters the policy is its own reference.
  if (run.algorithm.reference_pass && run.framework != Framework::kNemoRl && !adapts(trainer))
    result.reference = states.parameters;
  if (run.algorithm.critic) result.critic = states.critic;
  result.copy = copy_on_gpu(run, trainer);
  const bool whole = run.framework == Framework::kTelescope;
  result.bucket = run.sync.mode == SyncMode::kPerTensor ? 0 : run.sync.bucket_bytes * (whole ? 1 : 2);
  const std::int64_t held = states.parameters + states.optimizer + outside + result.reference + result.critic;
  const bool frees = trainer.is_megatron() && run.sync.free_grad_buffers;
  const std::int64_t kept = frees ? 0 : states.gradients;
  result.peaks.push_back({"training step", step + result.reference + result.critic,
                          described({{"step", step}, {"reference", result.reference}, {"critic", result.critic}})});
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
  return result;
}

}  // namespace

std::int64_t beside_step(const Run& run, const job::Job& trainer, const memory::RankAnswer& rank) {
  return account(run, trainer, states_of(trainer, rank), rank.device_used, rank.outside).peak() - rank.device_used;
}

std::int64_t least_beside_step(const Run& run, const job::Job& trainer, std::int64_t step) {
  return account(run, trainer, least_states(trainer), step, 0).peak() - step;
}

Result<TrainerMemory> trainer_memory(const Run& run, const job::Job& trainer, const lever::World& world) {
  PLIMSOLL_TRY(answer, memory::answer(trainer, {}));
  world.learned.apply(trainer, answer);
  for (std::string& word : world.learned.words(trainer)) answer.warnings.push_back(std::move(word));
  memory::RankAnswer& rank = answer.ranks[answer.worst];
  const States states = states_of(trainer, rank);
  TrainerMemory result = account(run, trainer, states, rank.device_used, rank.outside);
  result.capacity = rank.capacity;
  result.fits = answer.fits && result.peak() <= result.capacity;
  if (!result.fits && answer.fits && !run.sync.cpu_staging && result.copy > 0) {
    Run staged = run;
    staged.sync.cpu_staging = true;
    const std::int64_t peak = account(staged, trainer, states, rank.device_used, rank.outside).peak();
    if (peak <= result.capacity) result.staged_peak = peak;
  }
  result.rank = std::move(rank);
  result.warnings = std::move(answer.warnings);
  return result;
}

}  // namespace plimsoll::rl
