// SPDX-License-Identifier: Apache-2.0
// Runs of SkyRL: "trainer.policy.model.path=..." words of the command that a script starts. Names and defaults as read
// in the repository (skyrl/train/config/config.py; its releases before 2026 had them in ppo_base_config.yaml).
#include <algorithm>

#include <fmt/format.h>

#include "job/value.h"
#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"
#include "rl/frameworks/tools.h"
#include "rl/frameworks/unread.h"

namespace plimsoll::rl {

namespace {

constexpr std::int64_t kMost = 1 << 20;

// What nobody reads and does not move the answer: forward passes in batches of their own, evaluation, the copies of the
// trainer's settings for the reference and the critic.
constexpr std::string_view kPassed[] = {
    "trainer.ref.",
    "trainer.critic",
    "trainer.eval_",
    "trainer.micro_forward_batch_size_per_gpu",
    "trainer.algorithm.",
    "trainer.placement.",
    "trainer.fully_async.",
    "trainer.policy.optimizer_config.",
    "trainer.policy.fsdp_config.wrap_policy",
    "trainer.policy.model.lora.lora_sync_path",
    "trainer.policy.megatron_config.ddp_config.",
    "trainer.policy.megatron_config.torch_profiler_config",
    "trainer.policy.megatron_config.lora_config",
    "generator.",
    "data.",
    "environment.",
};

class SkyRl {
 public:
  SkyRl(Values& values, Settings& settings) : values_(values), settings_(settings) {}

  // The engine's settings moved into a section of their own.
  std::string word(std::string_view path) {
    std::string found = values_.take_word(path);
    constexpr std::string_view kSection = "generator.inference_engine.";
    if (found.empty() && path.starts_with(kSection)) {
      std::string_view last = path.substr(kSection.size());
      found = values_.take_word(fmt::format("generator.{}", last));
      if (found.empty()) found = values_.take_word(fmt::format("generator.inference_engine_{}", last));
      if (found.empty() && last == "num_engines") found = values_.take_word("generator.num_inference_engines");
    }
    return found;
  }
  std::int64_t count(std::string_view path, std::int64_t otherwise) {
    const document::Node node = document::parse_scalar(word(path));
    return node.is_integer() && node.integer > 0 && node.integer < kMost ? node.integer : otherwise;
  }
  void put(std::string_view key, std::string value) { put_setting(settings_, key, std::move(value)); }
  void put(std::string_view key, std::int64_t value) { put(key, std::to_string(value)); }

  void read_batches() {
    const std::int64_t prompts = count("trainer.train_batch_size", 1024);
    const std::int64_t per_step = count("trainer.policy_mini_batch_size", 256);
    put("prompts_batch_size_for_trainer", prompts);
    put("group_size", count("generator.n_samples_per_prompt", 5));
    if (prompts % per_step == 0) put("number_of_minibatches", prompts / per_step);
    const std::int64_t prompt = count("trainer.max_prompt_length", 512);
    const std::int64_t answer = count("generator.sampling_params.max_generate_length", 1024);
    put("prompt_max", prompt);
    put("max_tokens", answer);
    // A micro-batch without padding is as long as its sequences; a budget of tokens fills it up to that.
    const std::int64_t micro = count("trainer.micro_train_batch_size_per_gpu", 1);
    const std::int64_t tokens = count("trainer.max_tokens_per_microbatch", 0);
    put("seq_len", tokens > 0 ? tokens : micro * (prompt + answer));
  }

  void read_trainer(ConfigSettings& result) {
    const std::string strategy = word("trainer.strategy");
    const bool is_megatron = strategy == "megatron";
    put("trainer_framework", std::string(is_megatron ? "megatron-lm" : "fsdp2"));
    put("gradient_checkpointing",
        std::string(values_.take_flag("trainer.gradient_checkpointing").value_or(true) ? "true" : "false"));
    if (is_megatron) {
      read_megatron();
    } else {
      const std::int64_t ulysses = count("trainer.policy.sequence_parallel_size", 1);
      if (ulysses > 1) put("context_parallel_size", ulysses);
      if (values_.take_flag("trainer.policy.fsdp_config.cpu_offload").value_or(false)) put("cpu_offload", "true");
      if (const std::int64_t group = count("trainer.policy.fsdp_config.fsdp_size", 0); group > 0)
        result.assumed.push_back(fmt::format(
            "trainer.policy.fsdp_config.fsdp_size: weights are counted as split over every GPU, not {}", group));
    }
    const std::int64_t rank = count("trainer.policy.model.lora.rank", 0);
    if (rank == 0) return;
    put("peft", "lora");
    put("lora_rank", rank);
    const std::string targets = word("trainer.policy.model.lora.target_modules");
    put("lora_target_modules", targets.empty() ? "all-linear" : targets);
    static_cast<void>(word("trainer.policy.model.lora.alpha"));
    static_cast<void>(word("trainer.policy.model.lora.dropout"));
  }

  void read_megatron() {
    put("bf16", "true");
    put("use_distributed_optimizer", "true");
    const std::string section = "trainer.policy.megatron_config.";
    for (const std::string_view size :
         {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
          "expert_model_parallel_size", "expert_tensor_parallel_size"})
      if (const std::int64_t given = count(section + std::string(size), 0); given > 0) put(size, given);
    if (count(section + "tensor_model_parallel_size", 1) > 1) put("sequence_parallel", "true");  // its worker sets it
    const std::string kwargs = section + "transformer_config_kwargs.";
    // Its own defaults: every layer again.
    put("recompute_granularity", "full");
    put("recompute_method", "uniform");
    put("recompute_num_layers", "1");
    for (const std::string_view key :
         {"recompute_granularity", "recompute_method", "recompute_num_layers", "recompute_modules",
          "num_layers_in_last_pipeline_stage", "num_layers_in_first_pipeline_stage"})
      if (const std::string given = word(kwargs + std::string(key)); !given.empty() && given != "null") put(key, given);
    if (setting(settings_, "recompute_granularity") != "full")
      std::erase_if(settings_, [](const auto& one) {
        return one.first == "recompute_method" || one.first == "recompute_num_layers";
      });
    if (values_.take_flag(section + "optimizer_config_kwargs.optimizer_cpu_offload").value_or(false))
      put("optimizer_cpu_offload", "true");
  }

  void read_places() {
    const std::int64_t trainers =
        count("trainer.placement.policy_num_nodes", 1) * count("trainer.placement.policy_num_gpus_per_node", 1);
    const std::int64_t per_engine = count("generator.inference_engine.tensor_parallel_size", 1);
    const std::int64_t stages = count("generator.inference_engine.pipeline_parallel_size", 1);
    const std::int64_t servers = count("generator.inference_engine.num_engines", 1) * per_engine * stages *
                                 count("generator.inference_engine.data_parallel_size", 1);
    const bool colocated = values_.take_flag("trainer.placement.colocate_all").value_or(true);
    put("placement", std::string(colocated ? "colocated" : "disaggregated"));
    put("trainer_num_workers", trainers);
    put("inference_num_workers", colocated ? trainers : servers);
    put("gpus", colocated ? trainers : trainers + servers);
    put("inference_tensor_parallel_size", per_engine);
    if (stages > 1) put("inference_pipeline_parallel_size", stages);
    const std::string backend = word("generator.inference_engine.backend");
    put("engine", backend.empty() ? "vllm" : backend);
    const std::string share = word("generator.inference_engine.gpu_memory_utilization");
    put("gpu_memory_utilization", share.empty() ? "0.8" : share);
    const bool is_async = values_.take_flag("trainer.fully_async.enabled").value_or(false);
    put("mode", std::string(is_async ? "async" : "sync"));
    if (is_async) put("max_async_rollout", count("trainer.fully_async.max_staleness_steps", 4));
  }

 private:
  Values& values_;
  Settings& settings_;
};

}  // namespace

Result<ConfigSettings> read_skyrl(const std::string& path, std::string_view text) {
  PLIMSOLL_TRY(values, parse_overrides(text, path));
  ConfigSettings result;
  SkyRl run(values, result.settings);
  const std::string model = run.word("trainer.policy.model.path");
  run.put("model", model.empty() ? "Qwen/Qwen2.5-1.5B-Instruct" : model);
  run.read_batches();
  run.read_trainer(result);
  run.read_places();
  const bool compares = values.take_flag("trainer.algorithm.use_kl_loss").value_or(true) ||
                        values.take_flag("trainer.algorithm.use_kl_in_reward").value_or(false);
  run.put("reference_pass", std::string(compares ? "true" : "false"));
  if (values.has_section("trainer.critic") && !values.take_word("trainer.critic.model.path").empty())
    run.put("critic", "true");
  result.assumed.emplace_back(
      "logprobs_chunk_size: log-probabilities are computed in pieces; those of a micro-batch are counted at once, so "
      "the "
      "trainer may need less than is said");
  PLIMSOLL_TRY_STATUS(check_unread_of_tool(values, kPassed, result.ignored));
  result.assumed.push_back(fmt::format("{}: read as SkyRL", path));
  return result;
}

}  // namespace plimsoll::rl
