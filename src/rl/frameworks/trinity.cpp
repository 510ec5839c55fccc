// SPDX-License-Identifier: Apache-2.0
// Runs of Trinity-RFT: an explorer that generates on GPUs of its own and a trainer of verl's on the rest. Names and
// defaults as read in the repository (trinity/common/config.py, config_validator.py, trinity/algorithm/algorithm.py).
#include <algorithm>

#include <fmt/format.h>

#include "job/readers/omega.h"
#include "job/value.h"
#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"
#include "rl/frameworks/tools.h"
#include "rl/frameworks/unread.h"

namespace plimsoll::rl {

namespace {

constexpr std::int64_t kMost = 1 << 20;

// What moves neither memory nor seconds here: data, workflows, losses, the critic's own copies of the settings.
constexpr std::string_view kPassed[] = {
    "buffer.",
    "data_processor.",
    "algorithm.",
    "monitor.",
    "log.",
    "service.",
    "synchronizer.",
    "explorer.",
    "stages",
    "mode",
    "project",
    "group",
    "name",
    "checkpoint_root_dir",
    "cluster.",
    "trainer.trainer_config.critic.",
    "trainer.trainer_config.trainer.",
    "trainer.trainer_config.algorithm.",
    "trainer.grad_clip",
    "trainer.save_",
    "trainer.total_steps",
    "model.temperature",
    "model.chat_template",
    "model.rope_",
    "model.enable_prompt_truncation",
};

std::int64_t count(Values& values, std::string_view path, std::int64_t otherwise) {
  const auto number = values.take_integer(path);
  return number && *number > 0 && *number < kMost ? *number : otherwise;
}

struct Algorithm {
  bool critic = false;
  bool reference = true;
};

// Which models an algorithm holds beside the policy.
Result<Algorithm> algorithm_of(Values& values) {
  std::string name = values.take_word("algorithm.algorithm_type");
  if (name.empty()) name = "ppo";
  for (const std::string_view other : {"sft", "dpo", "on_policy_distill"})
    if (name == other)
      return bad_input(
          fmt::format("algorithm.algorithm_type: '{}' of Trinity-RFT is not reinforcement learning with "
                      "one model, and is not read",
                      name));
  Algorithm algorithm;
  algorithm.critic = name == "ppo";
  for (const std::string_view alone : {"asymre", "raft", "sppo"})
    if (name == alone) algorithm.reference = false;
  if (values.take_word("algorithm.kl_loss_fn") == "none") algorithm.reference = false;
  return algorithm;
}

void read_batches(Values& values, Settings& settings) {
  const auto put = [&settings](std::string_view key, std::int64_t value) {
    put_setting(settings, key, std::to_string(value));
  };
  const std::int64_t group = count(values, "algorithm.repeat_times", 1);
  const std::int64_t tasks = count(values, "buffer.batch_size", 1);
  const std::int64_t samples = count(values, "buffer.train_batch_size", tasks * group);
  put("group_size", group);
  put("prompts_batch_size_for_trainer", std::max<std::int64_t>(1, samples / group));
  const std::int64_t answer = count(values, "model.max_response_tokens", 2048);
  std::int64_t longest = count(values, "model.max_model_len", 0);
  const std::int64_t prompt = count(values, "model.max_prompt_tokens", longest > answer ? longest - answer : 2048);
  if (longest == 0) longest = prompt + answer;
  put("max_tokens", answer);
  put("prompt_max", prompt);
  put("max_model_len", longest);
  const std::int64_t split = count(values, "trainer.ulysses_sequence_parallel_size", 1);
  if (split > 1) put("context_parallel_size", split);
  // A GPU's tokens of a pass; its default holds two of the longest sequences over the GPUs that share them.
  const std::int64_t tokens = count(values, "trainer.max_token_len_per_gpu", (2 * longest + split - 1) / split);
  put("seq_len", std::max(tokens * split, longest));
}

Status read_places(Values& values, Settings& settings) {
  const std::string mode = values.take_word("mode");
  if (!mode.empty() && mode != "both")
    return bad_input(fmt::format("mode: '{}' runs one side alone; runs of both are read", mode));
  const std::int64_t nodes = count(values, "cluster.node_num", 1);
  const std::int64_t per_node = count(values, "cluster.gpu_per_node", 8);
  const std::int64_t per_engine = count(values, "explorer.rollout_model.tensor_parallel_size", 1);
  const std::int64_t servers = count(values, "explorer.rollout_model.engine_num", 1) * per_engine;
  const std::int64_t gpus = nodes * per_node;
  if (servers >= gpus)
    return bad_input(fmt::format(
        "explorer.rollout_model.engine_num: engines take {} of {} GPUs, so the trainer has none", servers, gpus));
  const auto put = [&settings](std::string_view key, std::string value) {
    put_setting(settings, key, std::move(value));
  };
  put("placement", "disaggregated");
  put("gpus", std::to_string(gpus));
  put("inference_num_workers", std::to_string(servers));
  put("trainer_num_workers", std::to_string(gpus - servers));
  put("inference_tensor_parallel_size", std::to_string(per_engine));
  put("engine", "vllm");
  const std::string share = values.take_word("explorer.rollout_model.gpu_memory_utilization");
  put("gpu_memory_utilization", share.empty() ? "0.9" : share);
  // Weights move every so many steps, and generation may start some steps before.
  const std::int64_t ahead =
      count(values, "synchronizer.sync_interval", 1) - 1 + count(values, "synchronizer.sync_offset", 0);
  put("mode", ahead > 0 ? "async" : "sync");
  if (ahead > 0) put("max_async_rollout", std::to_string(ahead));
  return {};
}

Status read_trainer(Values& values, Settings& settings) {
  const std::string strategy = values.take_word("trainer.trainer_strategy");
  if (!strategy.empty() && !strategy.starts_with("fsdp"))
    return bad_input(
        fmt::format("trainer.trainer_strategy: '{}' of Trinity-RFT is not read; fsdp and fsdp2 are", strategy));
  put_setting(settings, "trainer_framework", "fsdp2");
  static_cast<void>(values.take_word("trainer.trainer_type"));
  static_cast<void>(values.take_flag("trainer.use_dynamic_bsz"));
  const std::string actor = "trainer.trainer_config.actor_rollout_ref.";
  const bool recomputes = values.take_flag(actor + "model.enable_gradient_checkpointing").value_or(true);
  put_setting(settings, "gradient_checkpointing", recomputes ? "true" : "false");
  const bool offloads = values.take_flag(actor + "actor.fsdp_config.param_offload").value_or(false);
  const bool offloads_states = values.take_flag(actor + "actor.fsdp_config.optimizer_offload").value_or(false);
  if (offloads || offloads_states) put_setting(settings, "cpu_offload", "true");
  return {};
}

}  // namespace

Result<ConfigSettings> read_trinity(const std::string& path, std::string_view text) {
  PLIMSOLL_TRY(values, parse_tree(job::parse_omega(text, path)));
  ConfigSettings result;
  Settings& settings = result.settings;
  if (const std::string model = values.take_word("model.model_path"); !model.empty())
    put_setting(settings, "model", model);
  PLIMSOLL_TRY(algorithm, algorithm_of(values));
  read_batches(values, settings);
  PLIMSOLL_TRY_STATUS(read_places(values, settings));
  PLIMSOLL_TRY_STATUS(read_trainer(values, settings));
  put_setting(settings, "reference_pass", algorithm.reference ? "true" : "false");
  if (algorithm.critic) put_setting(settings, "critic", "true");
  if (values.has_section("explorer.auxiliary_models"))
    result.assumed.emplace_back("explorer.auxiliary_models: servers of other models are not counted");
  PLIMSOLL_TRY_STATUS(check_unread_of_tool(values, kPassed, result.ignored));
  result.assumed.push_back(fmt::format("{}: read as Trinity-RFT", path));
  return result;
}

}  // namespace plimsoll::rl
