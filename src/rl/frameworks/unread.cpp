// SPDX-License-Identifier: Apache-2.0
#include "rl/frameworks/unread.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "job/keys.h"
#include "job/unknown.h"

namespace plimsoll::rl {

namespace {

struct Passed {
  Framework framework;
  std::string_view start;  // of the path
};

// Read by nobody, and known not to move what is answered: passes without gradients in smaller batches, the reference's
// own offload, evaluation, data, logs.
constexpr Passed kPassed[] = {
    {Framework::kVerl, "actor_rollout_ref.rollout.log_prob_"},
    {Framework::kVerl, "actor_rollout_ref.rollout.micro_batch_size"},  // likewise, in old releases
    {Framework::kVerl, "actor_rollout_ref.rollout.val_kwargs"},
    {Framework::kVerl, "actor_rollout_ref.rollout.multi_turn"},
    {Framework::kVerl, "actor_rollout_ref.rollout.trace"},
    {Framework::kVerl, "actor_rollout_ref.rollout.max_parallel"},
    {Framework::kVerl, "actor_rollout_ref.ref."},
    {Framework::kVerl, "actor_rollout_ref.actor.checkpoint"},
    {Framework::kVerl, "actor_rollout_ref.actor.optim"},
    {Framework::kVerl, "actor_rollout_ref.actor.profiler"},
    {Framework::kVerl, "actor_rollout_ref.actor.fsdp_config.forward_prefetch"},
    {Framework::kVerl, "actor_rollout_ref.actor.fsdp_config.wrap_policy"},
    {Framework::kVerl, "actor_rollout_ref.actor.megatron.use_dist_checkpointing"},
    {Framework::kVerl, "actor_rollout_ref.actor.megatron.dist_checkpointing"},
    {Framework::kVerl, "actor_rollout_ref.rollout.update_weights"},
    {Framework::kVerl, "actor_rollout_ref.rollout.checkpoint_engine"},
    {Framework::kVerl, "actor_rollout_ref.model.lora.lora_"},  // how adapters start
    {Framework::kVerl, "actor_rollout_ref.model.lora.alpha"},
    {Framework::kVerl, "actor_rollout_ref.model.lora.dropout"},
    {Framework::kVerl, "actor_rollout_ref.model.lora.merge"},    // before weights are sent
    {Framework::kVerl, "actor_rollout_ref.model.lora.freeze_"},  // of the base, which adapters freeze anyway
    {Framework::kVerl, "actor_rollout_ref.model.lora.adapter_path"},
    {Framework::kVerl, "actor_rollout_ref.model.lora.a2a_experimental"},
    {Framework::kVerl, "actor_rollout_ref.model.lora.fully_sharded_loras"},
    {Framework::kVerl, "actor_rollout_ref.actor.entropy_"},  // entropy in pieces; logits are counted whole
    {Framework::kVerl, "actor_rollout_ref.actor.fsdp_config.mixed_precision"},
    {Framework::kVerl, "actor_rollout_ref.rollout.engine_kwargs.trtllm"},
    {Framework::kVerl, "critic."},
    {Framework::kVerl, "reward"},
    {Framework::kVerl, "custom_reward"},
    {Framework::kVerl, "data."},
    {Framework::kVerl, "trainer."},
    {Framework::kVerl, "algorithm."},
    {Framework::kVerl, "global_profiler"},
    {Framework::kOpenRlhf, "critic."},
    {Framework::kOpenRlhf, "reward."},
    {Framework::kOpenRlhf, "ref."},
    {Framework::kOpenRlhf, "eval."},
    {Framework::kOpenRlhf, "logger."},
    {Framework::kOpenRlhf, "ckpt."},
    {Framework::kOpenRlhf, "data."},
    {Framework::kNemoRl, "data."},
    {Framework::kNemoRl, "env."},
    {Framework::kNemoRl, "logger."},
    {Framework::kNemoRl, "checkpointing."},
    {Framework::kNemoRl, "grpo.val"},
    {Framework::kNemoRl, "grpo.max_val"},
    {Framework::kNemoRl, "policy.logprob_"},
    {Framework::kNemoRl, "policy.generation.mcore_generation_config"},
    {Framework::kNemoRl, "policy.generation.stop_"},
    {Framework::kNemoRl, "policy.generation.real_quant"},
    {Framework::kNemoRl, "policy.generation.vllm_kwargs.block_size"},
    {Framework::kNemoRl, "policy.generation.sglang_cfg.sglang_server_config."},
    {Framework::kNemoRl, "policy.megatron_cfg.defer_fp32_logits"},  // logits in pieces; they are counted whole
    {Framework::kNemoRl, "policy.megatron_cfg.cp_normalize"},
    {Framework::kNemoRl, "policy.megatron_cfg.checkpoint."},
    {Framework::kNemoRl, "policy.megatron_cfg.peft.lora_"},
    {Framework::kNemoRl, "policy.quant_"},
    {Framework::kNemoRl, "grpo.seq_logprob_error_threshold"},
    {Framework::kNemoRl, "grpo.batch_multiplier"},  // prompts that are drawn and filtered before a step
    {Framework::kNemoRl, "loss_fn."},
    {Framework::kNemoRl, "on_policy_distillation."},
    {Framework::kNemoRl, "async_rl."},
    {Framework::kNemoRl, "policy.generation.vllm_cfg.quantization_ignored_layer_kws"},
    {Framework::kNemoRl, "policy.generation.vllm_cfg.enable_expert_parallel"},
    {Framework::kNemoRl, "policy.generation.vllm_cfg.expert_parallel_size"},
    {Framework::kNemoRl, "policy.generation.trtllm_"},
    {Framework::kNemoRl, "policy.megatron_cfg.optimizer.bf16"},
    {Framework::kNemoRl, "policy.megatron_cfg.optimizer.params_dtype"},
    {Framework::kNemoRl, "policy.megatron_cfg.distributed_data_parallel_config.data_parallel_sharding_strategy"},
    {Framework::kNemoRl, "policy.offload_optimizer_for_logprob"},
    {Framework::kNemoRl, "policy.dtensor_cfg.automodel_kwargs"},
    {Framework::kNemoRl, "policy.dtensor_cfg.lora_cfg.lora_A_init"},
    {Framework::kNemoRl, "policy.generation.quant_"},
    {Framework::kNemoRl, "policy.generation_batch_size"},
    {Framework::kNemoRl, "policy.dynamic_batching."},
    {Framework::kNemoRl, "policy.sequence_packing."},
    {Framework::kNemoRl, "policy.optimizer"},
    {Framework::kNemoRl, "policy.scheduler"},
    {Framework::kNemoRl, "policy.tokenizer"},
    {Framework::kPrimeRl, "orchestrator.train."},
    {Framework::kPrimeRl, "orchestrator.eval"},
    {Framework::kPrimeRl, "trainer.model.cp_style"},
    {Framework::kPrimeRl, "monitors."},
    {Framework::kPrimeRl, "ckpt"},
    {Framework::kPrimeRl, "slurm"},
};

bool is_passed(Framework framework, std::string_view path) {
  return std::any_of(std::begin(kPassed), std::end(kPassed), [&](const Passed& passed) {
    return passed.framework == framework && path.starts_with(passed.start);
  });
}

// Sections that are switched off say nothing: megatron_cfg beside dtensor_cfg.
bool is_switched_off(const Values& values, std::string_view path) {
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
    const document::Node* enabled = values.look(fmt::format("{}.enabled", path.substr(0, dot)));
    if (enabled != nullptr && job::is_off(*enabled)) return true;
  }
  return false;
}

bool changes_nothing(const document::Node& value) {
  if (job::is_off(value)) return true;
  const std::string text = document::to_text(value);
  return text.empty() || text == "1" || text == "-1" || text == "auto" || text == "bfloat16" || text == "bf16";
}

Status refuse(std::vector<std::string> refused) {
  if (refused.empty()) return {};
  constexpr std::size_t kNamed = 8;
  const std::size_t more = refused.size() > kNamed ? refused.size() - kNamed : 0;
  refused.resize(refused.size() - more);
  return bad_input(fmt::format("these keys decide memory or speed and are not read here: {}{}", join(refused, ", "),
                               more > 0 ? fmt::format(" and {} more", more) : ""),
                   "take them out of the file and say what they mean with flags (plimsoll rl --keys)");
}

}  // namespace

Status check_unread(Framework framework, const Values& values, const Settings& given,
                    std::vector<std::string>& ignored) {
  std::vector<std::string> refused;
  for (const std::string& path : values.left_over()) {
    const document::Node* value = values.look(path);
    const bool matters = !job::subject_of(path).empty() && !is_passed(framework, path) &&
                         !is_switched_off(values, path) && value != nullptr && !changes_nothing(*value);
    (matters ? refused : ignored).push_back(path);
  }
  for (const auto& [path, name] : values.unknown()) {
    std::string key;
    for (const KeyName& row : key_names_in(framework))
      if (row.path == path) key = row.key;
    const bool decided = std::any_of(given.begin(), given.end(), [&key](const auto& one) { return one.first == key; });
    const bool matters = values.was_asked(path) || !job::subject_of(path).empty();
    if (decided || !matters || is_passed(framework, path)) continue;
    return bad_input(fmt::format("{}: its value needs {}, which the script does not set", path, name),
                     key.empty() ? "set it in the script" : fmt::format("give --{}", replace(key, '_', '-')));
  }
  return refuse(std::move(refused));
}

Status check_unread_of_tool(const Values& values, std::span<const std::string_view> passed,
                            std::vector<std::string>& ignored) {
  const auto is_passed_over = [passed](std::string_view path) {
    return std::any_of(passed.begin(), passed.end(),
                       [path](std::string_view start) { return path.starts_with(start); });
  };
  std::vector<std::string> refused;
  for (const std::string& path : values.left_over()) {
    const document::Node* value = values.look(path);
    const bool matters = !job::subject_of(path).empty() && !is_passed_over(path) && !is_switched_off(values, path) &&
                         value != nullptr && !changes_nothing(*value);
    (matters ? refused : ignored).push_back(path);
  }
  for (const auto& [path, name] : values.unknown())
    if (values.was_asked(path) || (!job::subject_of(path).empty() && !is_passed_over(path)))
      return bad_input(fmt::format("{}: its value needs {}, which the script does not set", path, name),
                       "set it in the script");
  return refuse(std::move(refused));
}

}  // namespace plimsoll::rl
