// SPDX-License-Identifier: Apache-2.0
// Read in the repositories: slime (utils/arguments.py, docs/en/get_started/usage.md), AReaL
// (areal/api/cli_args.py, alloc_mode.py), TRL (trainer/grpo_config.py).
#include "rl/frameworks/tools.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "job/keys.h"
#include "job/readers/launch.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/readers/shell.h"
#include "job/value.h"
#include "rl/frameworks/by_names.h"
#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"
#include "rl/frameworks/tool_values.h"

namespace plimsoll::rl {

namespace {

using document::Node;

constexpr Row kSlimeRows[] = {
    {"rollout_batch_size", "prompts_batch_size_for_trainer"},
    {"n_samples_per_prompt", "group_size"},
    {"rollout_max_response_len", "max_tokens"},
    {"rollout_max_prompt_len", "prompt_max"},
    {"rollout_max_context_len", "max_model_len"},
    {"rollout_num_gpus_per_engine", "inference_tensor_parallel_size"},
    {"sglang_mem_fraction_static", "gpu_memory_utilization"},
    {"decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage"},
    {"decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage"},
};

// Flags of Megatron that shape the trainer, not its model.
constexpr std::string_view kTrainerFlags[] = {
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "virtual_pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "sequence_parallel",
    "recompute_granularity",
    "recompute_method",
    "recompute_num_layers",
    "recompute_modules",
    "optimizer_cpu_offload",
    "use_precision_aware_optimizer",
    "use_distributed_optimizer",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "moe_token_dispatcher_type",
    "moe_router_dtype",
    "moe_permute_fusion",
    "moe_grouped_gemm",
    "fp8_recipe",
    "gradient_checkpointing",
};

Result<ConfigSettings> read_slime(const std::string& path, std::string_view text) {
  constexpr std::string_view kWanted[] = {"rollout_batch_size", "n_samples_per_prompt", "hf_checkpoint",
                                          "actor_num_nodes", "num_rollout"};
  PLIMSOLL_TRY(values, flags_of_script(text, path, kWanted));
  ConfigSettings result;
  Settings& settings = result.settings;
  static_cast<void>(values.take_word("launched_gpus"));  // of the head node; the flags say how many train and serve
  const bool is_fsdp = values.take_word("train_backend") == "fsdp";
  put_setting(settings, "trainer_framework", is_fsdp ? "fsdp2" : "megatron-lm");
  take_model(values.take_word("hf_checkpoint"), settings);
  take_rows(kSlimeRows, values, settings);
  for (const std::string_view flag : kTrainerFlags)
    if (const std::string word = values.take_word(flag); !word.empty()) put_setting(settings, flag, word);
  if (!is_fsdp) {
    put_setting(settings, "bf16", "true");
    put_setting(settings, "grad_reduce_in_fp32",
                values.take_flag("accumulate_allreduce_grads_in_fp32").value_or(false) ? "true" : "false");
  }
  put_setting(settings, "engine", "sglang");
  const std::int64_t trainer =
      take_count(values, "actor_num_nodes", 1) * take_count(values, "actor_num_gpus_per_node", 8);
  const bool colocated = values.has("colocate") && values.take_flag("colocate").value_or(true);
  const std::int64_t serving = take_count(values, "rollout_num_gpus", 0);
  const bool is_unknown = values.unknown().find("actor_num_gpus_per_node") != values.unknown().end() ||
                          values.unknown().find("actor_num_nodes") != values.unknown().end();
  put_setting(settings, "placement", colocated ? "colocated" : "disaggregated");
  const bool is_async = values.take_word("program").find("async") != std::string::npos;
  put_setting(settings, "mode", is_async ? "one-step-off" : "sync");
  if (!is_unknown && trainer < kMost) {
    put_setting(settings, "trainer_num_workers", std::to_string(trainer));
    const std::int64_t servers = colocated ? trainer : serving;
    if (servers > 0) put_setting(settings, "inference_num_workers", std::to_string(servers));
    if (colocated || serving > 0)
      put_setting(settings, "gpus", std::to_string(colocated ? trainer : trainer + serving));
  }
  const std::int64_t samples = integer(settings, "prompts_batch_size_for_trainer") * integer(settings, "group_size");
  const std::int64_t batch = take_count(values, "global_batch_size", 0);
  if (batch > 0 && samples > 0 && samples % batch == 0)
    put_setting(settings, "number_of_minibatches", std::to_string(samples / batch));
  // A micro-batch is filled with sequences up to max_tokens_per_gpu on every context-parallel rank.
  const bool is_dynamic = values.take_flag("use_dynamic_batch_size").value_or(false);
  const std::int64_t tokens = take_count(values, "max_tokens_per_gpu", 0);
  const std::int64_t micro = take_count(values, "micro_batch_size", 1);
  const std::int64_t ranks = std::max<std::int64_t>(1, integer(settings, "context_parallel_size"));
  const std::int64_t longest = integer(settings, "prompt_max") + integer(settings, "max_tokens");
  if (is_dynamic && tokens > 0) {
    put_setting(settings, "seq_len", std::to_string(tokens * ranks));
  } else if (longest > 0) {
    put_setting(settings, "seq_len", std::to_string(micro * longest));
  }
  put_setting(settings, "reference_pass", values.take_flag("use_kl_loss").value_or(false) ? "true" : "false");
  if (values.take_word("advantage_estimator") == "ppo") put_setting(settings, "critic", "true");
  result.assumed.push_back(fmt::format("{}: read as slime", path));
  return result;
}

// "sglang.d4p1t2+d4p1t1": the servers' and the trainer's sizes; d data, p pipeline, t tensor, c context, e expert.
struct Allocation {
  std::int64_t data = 1, pipeline = 1, tensor = 1, context = 1, expert = 1;
  std::string backend;
};

// "megatron:(attn:d4p4t2|ffn:d2p4e4)": attention has the sizes, the experts only their own.
Allocation parse_allocation(std::string_view text) {
  Allocation allocation;
  if (const std::size_t group = text.find('('); group != std::string_view::npos) {
    for (const std::string_view part : split(text.substr(group + 1), '|')) {
      const Allocation side = parse_allocation(part.substr(0, part.find(')')));
      if (side.backend == "ffn") {
        allocation.expert = side.expert;
      } else {
        const std::int64_t expert = allocation.expert;
        allocation = side;
        allocation.expert = std::max(expert, side.expert);
      }
    }
    allocation.backend = text.substr(0, text.find(':'));
    return allocation;
  }
  const std::size_t dot = std::max(text.rfind('.') + 1, text.rfind(':') + 1);
  if (dot > 0) allocation.backend = text.substr(0, dot - 1);
  for (std::size_t i = dot; i < text.size();) {
    const char letter = text[i++];
    std::int64_t number = 0;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9' && number < kMost)
      number = number * 10 + (text[i++] - '0');
    if (number < 1) continue;
    if (letter == 'd') allocation.data = number;
    if (letter == 'p') allocation.pipeline = number;
    if (letter == 't') allocation.tensor = number;
    if (letter == 'c') allocation.context = number;
    if (letter == 'e') allocation.expert = number;
  }
  return allocation;
}

// The servers' and the trainer's sizes: one word for both, or a backend of each ("fsdp:d4p1t1") in later releases.
Result<std::pair<Allocation, Allocation>> areal_sides(Values& values) {
  const std::string mode = values.take_word("allocation_mode");
  const std::size_t plus = mode.find('+');
  if (!mode.empty() && plus != std::string::npos)
    return std::pair{parse_allocation(mode.substr(0, plus)), parse_allocation(mode.substr(plus + 1))};
  const std::string serving = values.take_word("rollout.backend");
  const std::string training = values.take_word("actor.backend");
  if (serving.find(':') != std::string::npos && training.find(':') != std::string::npos)
    return std::pair{parse_allocation(serving), parse_allocation(training)};
  return bad_input(
      fmt::format("allocation_mode: found '{}', rollout.backend '{}', actor.backend '{}'; wanted an allocation_mode "
                  "such as sglang.d4p1t1+d4p1t1, or a backend of each side such as sglang:d4p1t1",
                  mode, serving, training));
}

Result<ConfigSettings> read_areal(const std::string& path, std::string_view text) {
  PLIMSOLL_TRY(values, parse_tree(job::parse_omega(text, path)));
  ConfigSettings result;
  Settings& settings = result.settings;
  take_model(values.take_word("actor.path"), settings);
  // Releases before gconfig have the group beside the parts and what is sampled below the algorithm.
  constexpr Row kRows[] = {{"group_size", "group_size"},
                           {"ppo.gen.max_new_tokens", "max_tokens"},
                           {"ppo.ppo_n_minibatches", "number_of_minibatches"},
                           {"dataset.train_bs_n_seqs", "prompts_batch_size_for_trainer"},
                           {"dataset.max_prompt_len", "prompt_max"},
                           {"gconfig.n_samples", "group_size"},
                           {"gconfig.max_new_tokens", "max_tokens"},
                           {"train_dataset.batch_size", "prompts_batch_size_for_trainer"},
                           {"train_dataset.max_length", "prompt_max"},
                           {"actor.mb_spec.max_tokens_per_mb", "seq_len"},
                           {"actor.gradient_checkpointing", "gradient_checkpointing"},
                           {"actor.ppo_n_minibatches", "number_of_minibatches"},
                           {"sglang.context_length", "max_model_len"},
                           {"sglang.mem_fraction_static", "gpu_memory_utilization"}};
  take_rows(kRows, values, settings);
  PLIMSOLL_TRY(sides, areal_sides(values));
  const auto& [serving, training] = sides;
  const bool is_megatron = training.backend == "megatron" || training.pipeline > 1 || training.expert > 1;
  put_setting(settings, "trainer_framework", is_megatron ? "megatron-lm" : "fsdp2");
  if (is_megatron) put_setting(settings, "bf16", "true");
  if (is_megatron && training.tensor > 1) put_setting(settings, "sequence_parallel", "true");  // megatron_engine.py
  const auto put_size = [&settings](const char* key, std::int64_t size) {
    if (size > 1) put_setting(settings, key, std::to_string(size));
  };
  put_size("tensor_model_parallel_size", training.tensor);
  put_size("pipeline_model_parallel_size", training.pipeline);
  put_size("context_parallel_size", training.context);
  put_size("expert_model_parallel_size", training.expert);
  put_setting(settings, "engine", serving.backend == "vllm" ? "vllm" : "sglang");
  put_setting(settings, "inference_tensor_parallel_size", std::to_string(serving.tensor));
  put_size("inference_pipeline_parallel_size", serving.pipeline);
  const auto product = [](const Allocation& a) { return a.data * a.pipeline * a.tensor; };
  const std::int64_t servers = product(serving);
  const std::int64_t trainers = product(training) * training.context;
  if (servers > kMost || trainers > kMost) return bad_input("allocation_mode: more GPUs than any cluster has");
  const bool colocated = values.take_word("rollout.scheduling_strategy.type") == "colocation";
  put_setting(settings, "placement", colocated ? "colocated" : "disaggregated");
  put_setting(settings, "trainer_num_workers", std::to_string(trainers));
  put_setting(settings, "inference_num_workers", std::to_string(servers));
  put_setting(settings, "gpus", std::to_string(colocated ? std::max(servers, trainers) : servers + trainers));
  const auto ahead = values.take_integer("rollout.max_head_offpolicyness");
  put_setting(settings, "mode", ahead.value_or(0) > 0 ? "async" : "sync");
  if (ahead.value_or(0) > 0) put_setting(settings, "max_async_rollout", std::to_string(*ahead));
  if (const std::string rank = values.take_word("actor.lora_rank");
      values.take_flag("actor.use_lora").value_or(false)) {
    put_setting(settings, "peft", "lora");
    if (!rank.empty()) put_setting(settings, "lora_rank", rank);
    put_setting(settings, "lora_target_modules", "all-linear");
  }
  const std::string kl = values.take_word("actor.kl_ctl");
  put_setting(settings, "reference_pass", kl.empty() || kl == "0" || kl == "0.0" ? "false" : "true");
  put_setting(settings, "logprob_pass", values.take_flag("actor.recompute_logprob").value_or(false) ? "true" : "false");
  if (values.has_section("critic")) put_setting(settings, "critic", "true");
  result.assumed.push_back(fmt::format("{}: read as AReaL", path));
  return result;
}

// GRPO of open-instruct (open_instruct/grpo_fast.py): DeepSpeed learners that pack answers to pack_length and
// recompute every layer, vLLM engines on GPUs of their own.
Result<ConfigSettings> read_open_instruct(const std::string& path, std::string_view text) {
  constexpr std::string_view kWanted[] = {"num_unique_prompts_rollout", "num_samples_per_prompt_rollout",
                                          "response_length", "vllm_num_engines", "pack_length"};
  PLIMSOLL_TRY(values, flags_of_script(text, path, kWanted));
  ConfigSettings result;
  Settings& settings = result.settings;
  static_cast<void>(values.take_word("launched_gpus"));  // of the launcher; learners and engines are counted below
  take_model(values.take_word("model_name_or_path"), settings);
  constexpr Row kRows[] = {{"num_unique_prompts_rollout", "prompts_batch_size_for_trainer"},
                           {"num_samples_per_prompt_rollout", "group_size"},
                           {"response_length", "max_tokens"},
                           {"max_prompt_token_length", "prompt_max"},
                           {"pack_length", "seq_len"},
                           {"num_mini_batches", "number_of_minibatches"},
                           {"vllm_tensor_parallel_size", "inference_tensor_parallel_size"},
                           {"vllm_gpu_memory_utilization", "gpu_memory_utilization"}};
  take_rows(kRows, values, settings);
  put_setting(settings, "engine", "vllm");
  put_setting(settings, "trainer_framework", "deepspeed");
  put_setting(settings, "zero_stage", std::to_string(values.take_integer("deepspeed_stage").value_or(0)));
  put_setting(settings, "gradient_checkpointing", "true");
  std::int64_t learners = 0;
  const std::string listed =
      replace(replace(replace(values.take_word("num_learners_per_node"), ',', ' '), '[', ' '), ']', ' ');
  for (const std::string_view word : split(listed, ' ')) {
    const Node number = document::parse_scalar(word);
    if (number.is_integer() && number.integer > 0 && number.integer < kMost) learners += number.integer;
  }
  learners = std::max<std::int64_t>(1, learners);
  const std::int64_t servers = take_count(values, "vllm_num_engines", 1) *
                               std::max<std::int64_t>(1, integer(settings, "inference_tensor_parallel_size"));
  const bool shares = values.has("single_gpu_mode") && values.take_flag("single_gpu_mode").value_or(true);
  put_setting(settings, "placement", shares ? "colocated" : "disaggregated");
  put_setting(settings, "trainer_num_workers", std::to_string(learners));
  put_setting(settings, "inference_num_workers", std::to_string(shares ? learners : servers));
  put_setting(settings, "gpus", std::to_string(shares ? learners : learners + servers));
  const std::int64_t ahead = shares ? 0 : values.take_integer("async_steps").value_or(1);
  put_setting(settings, "mode", ahead > 0 ? "async" : "sync");
  if (ahead > 0) put_setting(settings, "max_async_rollout", std::to_string(ahead));
  const std::string beta = values.take_word("beta");
  const bool is_plain = beta == "0" || beta == "0.0";
  put_setting(settings, "reference_pass", is_plain ? "false" : "true");
  result.assumed.push_back(fmt::format("{}: read as GRPO of open-instruct", path));
  return result;
}

}  // namespace

std::optional<Tool> recognise_tool(std::string_view text) {
  const auto has = [text](std::string_view sign) { return text.find(sign) != std::string_view::npos; };
  if (has("--rollout-batch-size") && has("--n-samples-per-prompt")) return Tool::kSlime;
  const bool has_sides = has("allocation_mode:") || (has("actor:") && has("backend:"));
  if (has_sides && (has("gconfig:") || has("trial_name:"))) return Tool::kAreal;
  if (has("--num_unique_prompts_rollout") && has("--num_samples_per_prompt_rollout")) return Tool::kOpenInstruct;
  const bool is_skyrl = has("trainer.policy.model.path") || has("trainer.placement.");
  if (is_skyrl && (has("generator.") || has("trainer.policy_mini_batch_size"))) return Tool::kSkyRl;
  if (has("algorithm_type:") && has("\nbuffer:")) return Tool::kTrinity;
  const bool is_grpo =
      has("rlhf_type grpo") || has("rlhf_type: grpo") || has("num_generations") || has("/grpo.py") || has(" grpo.py");
  if (is_grpo && (has("per_device_train_batch_size") || has("max_completion_length"))) return Tool::kTrl;
  if (speaks_of_run(text)) return Tool::kByNames;
  return std::nullopt;
}

Result<ConfigSettings> read_tool_settings(Tool tool, const std::string& path, std::string_view text,
                                          const Settings& given) {
  Result<ConfigSettings> read = tool == Tool::kSlime          ? read_slime(path, text)
                                : tool == Tool::kAreal        ? read_areal(path, text)
                                : tool == Tool::kOpenInstruct ? read_open_instruct(path, text)
                                : tool == Tool::kSkyRl        ? read_skyrl(path, text)
                                : tool == Tool::kTrinity      ? read_trinity(path, text)
                                : tool == Tool::kByNames      ? read_run_by_names(path, text, given)
                                                              : read_trl(path, text, given);
  if (!read) return read;
  assume_means(given, *read);
  return read;
}

}  // namespace plimsoll::rl
