// SPDX-License-Identifier: Apache-2.0
// Read in the repositories: Telescope f002cb2 (configs/defaults/default_train.yaml), verl b178a3c (fully_async_policy,
// trainer/config/rollout), OpenRLHF 3c3be62 (cli/train_ppo_ray.py), NeMo-RL 7ea279a (examples/configs/grpo_math_1B),
// prime-rl 559b447 (packages/prime-rl-configs).
#include "rl/frameworks/names.h"

namespace plimsoll::rl {

namespace {

constexpr KeyName kTelescope[] = {
    {"model", "model"},
    {"inference_num_workers", "inference_num_workers"},
    {"inference_tensor_parallel_size", "inference_tensor_parallel_size"},
    {"trainer_num_workers", "trainer_num_workers"},
    {"max_concurrent_prompts_per_server", "max_concurrent_prompts_per_server"},
    {"prompts_batch_size_for_trainer", "prompts_batch_size_for_trainer"},
    {"group_size", "group_size"},
    {"max_async_rollout", "max_async_rollout"},
    {"max_off_policy_steps", "max_off_policy_steps"},
    {"discard_group_zero_advantage", "discard_group_zero_advantage"},
    {"enable_individual_sample_lanes", "enable_individual_sample_lanes"},
    {"free_lane_after_generation", "free_lane_after_generation"},
    {"enable_prompt_prefetch", "enable_prompt_prefetch"},
    {"prompt_prefetch_buffer_size", "prompt_prefetch_buffer_size"},
    {"number_of_minibatches", "number_of_minibatches"},
    {"seq_len", "seq_len"},
    {"pad_to_multiple_of", "pad_to_multiple_of"},
    {"max_model_len", "max_model_len"},
    {"max_tokens", "max_tokens"},
    {"gpu_memory_utilization", "gpu_memory_utilization"},
    {"max_num_seqs", "max_num_seqs"},
    {"max_num_batched_tokens", "max_num_batched_tokens"},
    {"weight_broadcast_cpu_staging", "weight_broadcast_cpu_staging"},
    {"weight_broadcast_pin_memory", "weight_broadcast_pin_memory"},
    {"weight_broadcast_free_grad_buffers", "weight_broadcast_free_grad_buffers"},
    {"ray_inference_placement_strategy", "ray_inference_placement_strategy"},
    {"ray_trainer_placement_strategy", "ray_trainer_placement_strategy"},
};

constexpr KeyName kVerl[] = {
    {"model", "actor_rollout_ref.model.path"},
    {"prompt_max", "data.max_prompt_length"},
    {"max_tokens", "data.max_response_length"},
    {"group_size", "actor_rollout_ref.rollout.n"},
    {"epochs", "actor_rollout_ref.actor.ppo_epochs"},
    {"seq_len", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"},
    {"packing", "actor_rollout_ref.model.use_remove_padding"},
    {"reference_pass", "actor_rollout_ref.actor.use_kl_loss"},
    {"engine", "actor_rollout_ref.rollout.name"},
    {"inference_tensor_parallel_size", "actor_rollout_ref.rollout.tensor_model_parallel_size"},
    {"inference_pipeline_parallel_size", "actor_rollout_ref.rollout.pipeline_model_parallel_size"},
    {"gpu_memory_utilization", "actor_rollout_ref.rollout.gpu_memory_utilization"},
    {"max_model_len", "actor_rollout_ref.rollout.max_model_len"},
    {"max_num_seqs", "actor_rollout_ref.rollout.max_num_seqs"},
    {"max_num_batched_tokens", "actor_rollout_ref.rollout.max_num_batched_tokens"},
    {"enforce_eager", "actor_rollout_ref.rollout.enforce_eager"},
    {"enable_prefix_caching", "actor_rollout_ref.rollout.enable_prefix_caching"},
};

constexpr KeyName kOpenRlhf[] = {
    {"model", "actor.model_name_or_path"},
    {"prompts_batch_size_for_trainer", "rollout.batch_size"},
    {"group_size", "rollout.n_samples_per_prompt"},
    {"epochs", "train.max_epochs"},
    {"max_tokens", "rollout.max_new_tokens"},
    {"max_model_len", "data.max_len"},
    {"seq_len", "train.max_tokens_per_gpu"},
    {"packing", "ds.packing_samples"},
    {"inference_tensor_parallel_size", "vllm.tensor_parallel_size"},
    {"gpu_memory_utilization", "vllm.gpu_memory_utilization"},
    {"enforce_eager", "vllm.enforce_eager"},
    {"enable_prefix_caching", "vllm.enable_prefix_caching"},
    {"in_flight_weight_updates", "train.partial_rollout_enable"},
    {"discard_group_zero_advantage", "algo.dynamic_filtering_enable"},
};

constexpr KeyName kNemoRl[] = {
    {"prompts_batch_size_for_trainer", "grpo.num_prompts_per_step"},
    {"group_size", "grpo.num_generations_per_prompt"},
    {"discard_group_zero_advantage", "grpo.use_dynamic_sampling"},
    {"in_flight_weight_updates", "grpo.async_grpo.in_flight_weight_updates"},
    {"model", "policy.model_name"},
    {"seq_len", "policy.max_total_sequence_length"},
    {"pad_to_multiple_of", "policy.make_sequence_length_divisible_by"},
    {"packing", "policy.sequence_packing.enabled"},
    {"max_tokens", "policy.generation.max_new_tokens"},
    {"engine", "policy.generation.backend"},
    {"inference_tensor_parallel_size", "policy.generation.vllm_cfg.tensor_parallel_size"},
    {"inference_pipeline_parallel_size", "policy.generation.vllm_cfg.pipeline_parallel_size"},
    {"gpu_memory_utilization", "policy.generation.vllm_cfg.gpu_memory_utilization"},
    {"max_model_len", "policy.generation.vllm_cfg.max_model_len"},
    {"enforce_eager", "policy.generation.vllm_cfg.enforce_eager"},
    {"max_num_seqs", "policy.generation.vllm_kwargs.max_num_seqs"},
    {"max_num_batched_tokens", "policy.generation.vllm_kwargs.max_num_batched_tokens"},
    {"enable_prefix_caching", "policy.generation.vllm_kwargs.enable_prefix_caching"},
};

constexpr KeyName kPrimeRl[] = {
    {"model", "model.name"},
    {"gpus_per_node", "deployment.gpus_per_node"},
    {"group_size", "orchestrator.group_size"},
    {"max_off_policy_steps", "orchestrator.max_off_policy_steps"},
    {"pad_to_multiple_of", "orchestrator.pad_to_multiple_of"},
    {"max_tokens", "orchestrator.train.sampling.max_completion_tokens"},
    {"discard_group_zero_advantage", "orchestrator.train.filter_zero_advantages"},
    {"seq_len", "trainer.model.seq_len"},
    {"max_model_len", "inference.vllm.max_model_len"},
    {"inference_tensor_parallel_size", "inference.vllm.tensor_parallel_size"},
    {"gpu_memory_utilization", "inference.vllm.gpu_memory_utilization"},
    {"enable_prefix_caching", "inference.vllm.enable_prefix_caching"},
    {"enforce_eager", "inference.vllm.enforce_eager"},
    {"max_num_seqs", "inference.vllm.max_num_seqs"},
    {"max_num_batched_tokens", "inference.vllm.max_num_batched_tokens"},
};

struct Knob {
  Framework framework;
  std::string_view key;
  std::string_view path;
};

// Knobs whose value has another form there.
constexpr Knob kKnobs[] = {
    {Framework::kTelescope, "weight_broadcast_mode", "weight_broadcast_mode"},
    {Framework::kTelescope, "weight_broadcast_bucket_mb", "weight_broadcast_bucket_mb"},
    {Framework::kTelescope, "logprob_pass", "ppo_clip_ref_logprobs"},
    {Framework::kTelescope, "recompute", "megatron_gradient_checkpointing"},
    {Framework::kTelescope, "fp8", "megatron_fp8"},
    {Framework::kVerl, "trainer_num_workers", "trainer.nnodes, trainer.n_gpus_per_node"},
    {Framework::kVerl, "inference_num_workers", "rollout.nnodes, rollout.n_gpus_per_node"},
    {Framework::kVerl, "prompts_batch_size_for_trainer", "data.train_batch_size (async_training.require_batches)"},
    {Framework::kVerl, "max_concurrent_prompts_per_server", "actor_rollout_ref.rollout.max_num_seqs"},
    {Framework::kVerl, "max_async_rollout", "async_training.staleness_threshold"},
    {Framework::kVerl, "trigger_parameter_sync_step", "async_training.trigger_parameter_sync_step"},
    {Framework::kVerl, "in_flight_weight_updates", "async_training.partial_rollout"},
    {Framework::kVerl, "number_of_minibatches", "actor_rollout_ref.actor.ppo_mini_batch_size"},
    {Framework::kVerl, "logprob_pass", "async_training.use_rollout_log_probs"},
    {Framework::kVerl, "weight_broadcast_bucket_mb",
     "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes"},
    {Framework::kVerl, "weight_broadcast_mode", "async_training.checkpoint_engine.enable"},
    {Framework::kVerl, "environment_workers", "actor_rollout_ref.rollout.agent.num_workers"},
    {Framework::kVerl, "kv_cache_dtype", "+actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_dtype"},
    {Framework::kVerl, "recompute", "actor_rollout_ref.model.enable_gradient_checkpointing"},
    {Framework::kOpenRlhf, "trainer_num_workers", "--actor.num_nodes, --actor.num_gpus_per_node"},
    {Framework::kOpenRlhf, "inference_num_workers", "--vllm.num_engines"},
    {Framework::kOpenRlhf, "max_concurrent_prompts_per_server", "--rollout.vllm_generate_batch_size"},
    {Framework::kOpenRlhf, "max_async_rollout", "--train.async_queue_size"},
    {Framework::kOpenRlhf, "number_of_minibatches", "--train.batch_size"},
    {Framework::kOpenRlhf, "weight_broadcast_mode", "--vllm.sync_backend"},
    {Framework::kOpenRlhf, "recompute", "--actor.gradient_checkpointing_enable"},
    {Framework::kNemoRl, "trainer_num_workers", "cluster.num_nodes, cluster.gpus_per_node"},
    {Framework::kNemoRl, "inference_num_workers",
     "policy.generation.colocated.resources.num_nodes, policy.generation.colocated.resources.gpus_per_node"},
    {Framework::kNemoRl, "max_concurrent_prompts_per_server", "policy.generation.vllm_kwargs.max_num_seqs"},
    {Framework::kNemoRl, "max_async_rollout", "grpo.async_grpo.max_trajectory_age_steps"},
    {Framework::kNemoRl, "number_of_minibatches", "policy.train_global_batch_size"},
    {Framework::kNemoRl, "kv_cache_dtype", "policy.generation.vllm_cfg.kv_cache_dtype"},
    {Framework::kNemoRl, "fp8", "policy.megatron_cfg.fp8_cfg.enabled"},
    {Framework::kNemoRl, "recompute",
     "policy.dtensor_cfg.activation_checkpointing, policy.megatron_cfg.activation_checkpointing"},
    {Framework::kPrimeRl, "trainer_num_workers", "deployment.num_train_gpus (num_train_nodes)"},
    {Framework::kPrimeRl, "inference_num_workers", "deployment.num_infer_gpus (num_infer_nodes)"},
    {Framework::kPrimeRl, "loss_chunk", "trainer.model.fused_lm_head_token_chunk_size"},
    {Framework::kPrimeRl, "prompts_batch_size_for_trainer", "orchestrator.batch_size"},
    {Framework::kPrimeRl, "max_concurrent_prompts_per_server", "orchestrator.concurrency.max_inflight"},
    {Framework::kPrimeRl, "max_async_rollout", "orchestrator.max_off_policy_steps"},
    {Framework::kPrimeRl, "weight_broadcast_mode", "weight_broadcast.type"},
    {Framework::kPrimeRl, "fp8", "trainer.model.quantization"},
    {Framework::kPrimeRl, "recompute", "trainer.model.ac"},
};

}  // namespace

std::span<const KeyName> key_names_in(Framework framework) {
  switch (framework) {
    case Framework::kTelescope:
      return kTelescope;
    case Framework::kVerl:
      return kVerl;
    case Framework::kOpenRlhf:
      return kOpenRlhf;
    case Framework::kNemoRl:
      return kNemoRl;
    case Framework::kPrimeRl:
      return kPrimeRl;
    case Framework::kGeneric:
      return {};
  }
  return {};
}

std::string_view knob_in(Framework framework, std::string_view key) {
  if (framework == Framework::kGeneric) return key;
  for (const Knob& knob : kKnobs)
    if (knob.framework == framework && knob.key == key) return knob.path;
  for (const KeyName& name : key_names_in(framework))
    if (name.key == key) return name.path;
  return {};
}

}  // namespace plimsoll::rl
