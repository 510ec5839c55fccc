// SPDX-License-Identifier: Apache-2.0
// Names as read in the repository (examples/config.yaml, verl/workers/*/config.py), whose comments say what they are in
// verl.
#include "rl/frameworks/easyr1.h"

#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::rl {

namespace {

struct Renamed {
  const char* from;
  const char* to;
};

constexpr Renamed kNames[] = {
    {"data.rollout_batch_size", "data.train_batch_size"},
    {"data.mini_rollout_batch_size", "data.gen_batch_size"},
    {"worker.actor.model.model_path", "actor_rollout_ref.model.path"},
    {"worker.actor.model.enable_gradient_checkpointing", "actor_rollout_ref.model.enable_gradient_checkpointing"},
    {"worker.actor.model.lora.rank", "actor_rollout_ref.model.lora.rank"},
    {"worker.actor.model.lora.target_modules", "actor_rollout_ref.model.lora.target_modules"},
    {"worker.actor.padding_free", "actor_rollout_ref.model.use_remove_padding"},
    {"worker.actor.global_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"},
    {"worker.actor.micro_batch_size_per_device_for_update", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"},
    {"worker.actor.ulysses_size", "actor_rollout_ref.actor.ulysses_sequence_parallel_size"},
    {"worker.actor.ulysses_sequence_parallel_size", "actor_rollout_ref.actor.ulysses_sequence_parallel_size"},
    {"worker.actor.ppo_epochs", "actor_rollout_ref.actor.ppo_epochs"},
    {"worker.actor.fsdp.fsdp_size", "actor_rollout_ref.actor.fsdp_config.fsdp_size"},
    {"worker.actor.fsdp.torch_dtype", "actor_rollout_ref.actor.fsdp_config.model_dtype"},
    {"worker.actor.offload.offload_params", "actor_rollout_ref.actor.fsdp_config.param_offload"},
    {"worker.actor.offload.offload_optimizer", "actor_rollout_ref.actor.fsdp_config.optimizer_offload"},
    {"worker.actor.offload.param_offload", "actor_rollout_ref.actor.fsdp_config.param_offload"},
    {"worker.actor.offload.optimizer_offload", "actor_rollout_ref.actor.fsdp_config.optimizer_offload"},
    {"worker.rollout.n", "actor_rollout_ref.rollout.n"},
    {"worker.rollout.name", "actor_rollout_ref.rollout.name"},
    {"worker.rollout.gpu_memory_utilization", "actor_rollout_ref.rollout.gpu_memory_utilization"},
    {"worker.rollout.tensor_parallel_size", "actor_rollout_ref.rollout.tensor_model_parallel_size"},
    {"worker.rollout.max_model_len", "actor_rollout_ref.rollout.max_model_len"},
    {"worker.rollout.max_num_batched_tokens", "actor_rollout_ref.rollout.max_num_batched_tokens"},
    {"worker.rollout.enforce_eager", "actor_rollout_ref.rollout.enforce_eager"},
};

// The reference's copies, forward passes in batches of their own, sampling, optimizer and reward: verl's are passed
// over as well.
constexpr Renamed kSections[] = {
    {"worker.ref", "actor_rollout_ref.ref"},
    {"worker.reward", "reward"},
    {"worker.critic", "critic"},
    {"worker.actor.optim", "actor_rollout_ref.actor.optim"},
    {"worker.rollout.val_override_config", "actor_rollout_ref.rollout.val_kwargs"},
    {"worker.actor.model.lora", "actor_rollout_ref.model.lora"},
};

}  // namespace

bool is_easyr1(std::string_view text) {
  const bool is_file = text.find("\nworker:") != std::string_view::npos || text.starts_with("worker:");
  return text.find("worker.actor.") != std::string_view::npos ||
         (is_file && text.find("rollout_batch_size:") != std::string_view::npos);
}

void take_easyr1_names(Values& values) {
  if (!values.has_section("worker")) return;
  for (const Renamed& name : kNames) {
    if (const auto unknown = values.unknown().find(name.from); unknown != values.unknown().end())
      values.put_unknown(name.to, unknown->second);
    if (const document::Node* value = values.take(name.from); value != nullptr && !value->is_null())
      values.put(name.to, document::Node(*value));
  }
  // Micro-batches are dealt out by tokens, at most as many as the given number of the longest samples has: what is
  // counted without.
  static_cast<void>(values.take("worker.actor.dynamic_batching"));
  static_cast<void>(values.take("worker.actor.micro_batch_size_per_device_for_experience"));
  // Shards of everything, as verl's FSDP has them; off, gradients and optimizer alone are sharded, which stays unread.
  if (const document::Node* whole = values.look("worker.actor.fsdp.enable_full_shard");
      whole != nullptr && !job::is_off(*whole))
    static_cast<void>(values.take("worker.actor.fsdp.enable_full_shard"));
  // The reference answers for a penalty in the loss and for one in the reward.
  if (const auto off = values.take_flag("algorithm.disable_kl")) {
    static_cast<void>(values.take("algorithm.use_kl_loss"));
    values.put("actor_rollout_ref.actor.use_kl_loss", job::bool_node(!*off));
  }
  for (const Renamed& section : kSections) values.rename_section(section.from, section.to);
}

}  // namespace plimsoll::rl
