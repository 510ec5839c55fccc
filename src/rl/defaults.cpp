// SPDX-License-Identifier: Apache-2.0
// What each framework does when it is told nothing (facts rl-and-inference.md 1, 3, 6). What the facts do not say
// stays unset, and complete() asks for it.
#include "rl/run.h"

namespace plimsoll::rl {

namespace {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

void telescope(Run& run) {
  run.algorithm.group_size = 8;
  run.algorithm.prompts_per_step = 16;
  run.packing = {.seq_len = 4096, .pad_to_multiple_of = 64, .enabled = true};
  run.completion.maximum = 3700;
  run.staleness.limit = 2;
  run.staleness.max_off_policy_steps = 8;
  run.lanes.prompts_per_server = 32;
  run.server.memory_fraction = 0.9;
  run.server.max_model_len = 4096;
  run.server.prefix_caching = false;
}

// Hybrid engine; the old log-probabilities are the trainer's.
void verl(Run& run) {
  run.placement = Placement::kColocated;
  run.staleness.mode = Mode::kSync;
  run.staleness.in_flight_updates = false;
  run.algorithm.logprob_pass = true;
  run.algorithm.discard_zero_advantage = false;
  run.server.memory_fraction = 0.5;
  run.server.tensor = 2;
  run.server.max_num_seqs = 256;
  run.server.max_num_batched_tokens = 8192;
  run.sync.bucket_bytes = 4LL << 30;
}

void openrlhf(Run& run) {
  run.placement = Placement::kColocated;
  run.staleness.mode = Mode::kSync;
  run.staleness.limit = 1;
  run.staleness.in_flight_updates = false;
  run.algorithm.logprob_pass = true;
  run.algorithm.discard_zero_advantage = false;
  run.server.memory_fraction = 0.5;
  run.trainer_framework = job::Framework::kDeepSpeed;
}

// GRPO computes the log-probabilities of policy and reference on the trainer.
void nemo_rl(Run& run) {
  run.placement = Placement::kColocated;
  run.staleness.mode = Mode::kSync;
  run.staleness.limit = 1;
  run.staleness.in_flight_updates = false;
  run.algorithm.logprob_pass = true;
  run.algorithm.reference_pass = true;
  run.algorithm.discard_zero_advantage = false;
  run.server.memory_fraction = 0.6;
}

void prime_rl(Run& run) {
  run.staleness.limit = 8;
  run.staleness.max_off_policy_steps = 8;
  run.algorithm.discard_zero_advantage = false;
  run.server.memory_fraction = 0.9;
  run.loss_chunk = 8192;  // fused_lm_head_token_chunk_size
}

void generic(Run& run) {
  run.staleness.limit = 1;
  run.algorithm.discard_zero_advantage = false;
}

}  // namespace

Run defaults_for(Framework framework) {
  Run run;
  run.framework = framework;
  run.cluster.gpus = 0;
  switch (framework) {
    case Framework::kTelescope:
      telescope(run);
      break;
    case Framework::kVerl:
      verl(run);
      break;
    case Framework::kOpenRlhf:
      openrlhf(run);
      break;
    case Framework::kNemoRl:
      nemo_rl(run);
      break;
    case Framework::kPrimeRl:
      prime_rl(run);
      break;
    case Framework::kGeneric:
      generic(run);
      break;
  }
  run.trainer_keys = default_trainer_keys(framework, run.trainer_framework);
  return run;
}

KeyValues default_trainer_keys(Framework framework, job::Framework trainer) {
  const job::FrameworkFacts& facts = job::facts_of(trainer);
  if (facts.is_megatron) {
    KeyValues keys = {{"bf16", "true"}, {"grad_reduce_in_fp32", "true"}, {"use_distributed_optimizer", "true"}};
    if (framework == Framework::kTelescope)
      keys.insert(keys.end(), {{"recompute_granularity", "full"},
                               {"recompute_method", "uniform"},
                               {"recompute_num_layers", "1"},
                               {"transformer_impl", "local"}});
    return keys;
  }
  // fp32 shards, bf16 compute, fp32 reduction (facts rl-and-inference.md 1, other-frameworks-memory.md 6.1).
  KeyValues keys = {{"bf16", "true"}};
  if (facts.own_sharding == job::ShardingKind::kZero) keys.emplace_back("zero_stage", "3");
  if (framework != Framework::kNemoRl && framework != Framework::kGeneric && facts.runs_hub_models)
    keys.emplace_back("gradient_checkpointing", "true");
  return keys;
}

}  // namespace plimsoll::rl
