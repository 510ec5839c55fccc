// SPDX-License-Identifier: Apache-2.0
// OpenRLHF until 0.9 (cli/train_ppo_ray.py): flags without sections.
#include <algorithm>
#include <utility>

#include "rl/frameworks/items.h"

namespace plimsoll::rl {

namespace {

constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"pretrain", "actor.model_name_or_path"},
    {"reward_pretrain", "reward.model_name_or_path"},
    {"critic_pretrain", "critic.model_name_or_path"},
    {"actor_num_nodes", "actor.num_nodes"},
    {"actor_num_gpus_per_node", "actor.num_gpus_per_node"},
    {"ref_num_nodes", "ref.num_nodes"},
    {"ref_num_gpus_per_node", "ref.num_gpus_per_node"},
    {"critic_num_nodes", "critic.num_nodes"},
    {"critic_num_gpus_per_node", "critic.num_gpus_per_node"},
    {"reward_num_nodes", "reward.num_nodes"},
    {"reward_num_gpus_per_node", "reward.num_gpus_per_node"},
    {"vllm_num_engines", "vllm.num_engines"},
    {"vllm_tensor_parallel_size", "vllm.tensor_parallel_size"},
    {"vllm_gpu_memory_utilization", "vllm.gpu_memory_utilization"},
    {"vllm_sync_backend", "vllm.sync_backend"},
    {"vllm_enable_sleep", "vllm.enable_sleep"},
    {"enable_prefix_caching", "vllm.enable_prefix_caching"},
    {"enforce_eager", "vllm.enforce_eager"},
    {"deepspeed_enable_sleep", "ds.enable_sleep"},
    {"colocate_all_models", "train.colocate_all"},
    {"async_train", "train.async_enable"},
    {"async_queue_size", "train.async_queue_size"},
    {"micro_train_batch_size", "train.micro_batch_size"},
    {"train_batch_size", "train.batch_size"},
    {"max_epochs", "train.max_epochs"},
    {"use_dynamic_batch", "train.dynamic_batch_enable"},
    {"train_max_tokens_per_gpu", "train.max_tokens_per_gpu"},
    {"micro_rollout_batch_size", "rollout.micro_batch_size"},
    {"rollout_batch_size", "rollout.batch_size"},
    {"n_samples_per_prompt", "rollout.n_samples_per_prompt"},
    {"generate_max_len", "rollout.max_new_tokens"},
    {"prompt_max_len", "data.prompt_max_len"},
    {"max_len", "data.max_len"},
    {"zero_stage", "ds.zero_stage"},
    {"adam_offload", "ds.adam_offload"},
    {"packing_samples", "ds.packing_samples"},
    {"gradient_checkpointing", "actor.gradient_checkpointing_enable"},
    {"advantage_estimator", "algo.advantage.estimator"},
    {"init_kl_coef", "algo.kl.init_coef"},
    {"dynamic_filtering", "algo.dynamic_filtering_enable"},
    {"lora_rank", "ds.lora.rank"},
    {"load_in_4bit", "ds.load_in_4bit"},
    {"ring_attn_size", "ds.ring_attn_size"},
    {"ds_tensor_parallel_size", "ds.tensor_parallel_size"},
    {"param_dtype", "ds.param_dtype"},
};

}  // namespace

std::string_view current_openrlhf_name(std::string_view flag) {
  const auto* found =
      std::find_if(std::begin(kNames), std::end(kNames), [flag](const auto& row) { return row.first == flag; });
  return found == std::end(kNames) ? std::string_view{} : found->second;
}

}  // namespace plimsoll::rl
