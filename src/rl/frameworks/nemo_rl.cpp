// SPDX-License-Identifier: Apache-2.0
// NeMo-RL: a nested YAML over examples/configs/grpo_math_1B.yaml. cluster.* counts all nodes; the servers' share of
// them is policy.generation.colocated.resources.
#include <cmath>

#include <fmt/format.h>

#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"

namespace plimsoll::rl {

namespace {

constexpr TrainerName kDtensor[] = {
    {"tensor_model_parallel_size", "policy.dtensor_cfg.tensor_parallel_size"},
    {"context_parallel_size", "policy.dtensor_cfg.context_parallel_size"},
    {"expert_model_parallel_size", "policy.dtensor_cfg.expert_parallel_size"},
    {"gradient_checkpointing", "policy.dtensor_cfg.activation_checkpointing"},
    {"fsdp_cpu_offload", "policy.dtensor_cfg.cpu_offload"},
};
constexpr TrainerName kMegatron[] = {
    {"tensor_model_parallel_size", "policy.megatron_cfg.tensor_model_parallel_size"},
    {"pipeline_model_parallel_size", "policy.megatron_cfg.pipeline_model_parallel_size"},
    {"context_parallel_size", "policy.megatron_cfg.context_parallel_size"},
    {"expert_model_parallel_size", "policy.megatron_cfg.expert_model_parallel_size"},
    {"expert_tensor_parallel_size", "policy.megatron_cfg.expert_tensor_parallel_size"},
    {"sequence_parallel", "policy.megatron_cfg.sequence_parallel"},
    {"num_layers_in_first_pipeline_stage", "policy.megatron_cfg.num_layers_in_first_pipeline_stage"},
    {"num_layers_in_last_pipeline_stage", "policy.megatron_cfg.num_layers_in_last_pipeline_stage"},
    {"first_last_layers_bf16", "policy.megatron_cfg.first_last_layers_bf16"},
    {"num_layers_at_start_in_bf16", "policy.megatron_cfg.num_layers_at_start_in_bf16"},
    {"num_layers_at_end_in_bf16", "policy.megatron_cfg.num_layers_at_end_in_bf16"},
    {"moe_router_dtype", "policy.megatron_cfg.moe_router_dtype"},
    {"use_precision_aware_optimizer", "policy.megatron_cfg.optimizer.use_precision_aware_optimizer"},
    {"use_distributed_optimizer", "policy.megatron_cfg.optimizer.use_distributed_optimizer"},
    {"optimizer_cpu_offload", "policy.megatron_cfg.optimizer.optimizer_cpu_offload"},
    {"grad_reduce_in_fp32", "policy.megatron_cfg.distributed_data_parallel_config.grad_reduce_in_fp32"},
};

constexpr const char* kResources = "policy.generation.colocated.resources";

bool is_megatron(const Run& run) { return job::facts_of(run.trainer_framework).is_megatron; }

Status check(const Run& run) {
  if (!is_megatron(run) && run.trainer_framework != job::Framework::kFsdp2)
    return bad_input(fmt::format("trainer_framework is {}; NeMo-RL trains with fsdp2 (DTensor) or Megatron",
                                 job::name_of(run.trainer_framework)));
  if (run.staleness.limit != std::floor(run.staleness.limit))
    return bad_input(fmt::format("max_async_rollout is {}; NeMo-RL counts whole steps", run.staleness.limit));
  if (run.staleness.mode != Mode::kSync && run.is_colocated())
    return bad_input("placement is colocated; asynchronous GRPO of NeMo-RL needs servers of their own");
  return {};
}

// One switch over Megatron's own keys.
void add_recomputation(const Run& run, Items& items) {
  const auto value = [&run](std::string_view key) {
    for (const auto& [name, text] : run.trainer_keys)
      if (name == key) return text;
    return std::string{};
  };
  const std::string granularity = value("recompute_granularity");
  if (granularity.empty()) return;
  const bool recomputes = granularity != "none";
  items.add_flag("policy.megatron_cfg.activation_checkpointing", recomputes, "recompute_granularity",
                 "recompute activations in the backward pass");
  if (!recomputes) return;
  for (const char* key : {"recompute_granularity", "recompute_method", "recompute_num_layers"})
    if (const std::string text = value(key); !text.empty())
      items.add(fmt::format("policy.megatron_cfg.{}", key), document::parse_scalar(text), key);
}

Status add_pools(const Run& run, Items& items) {
  PLIMSOLL_TRY(all, nodes_of(run.cluster.gpus, run.cluster.gpus_per_node, "gpus"));
  items.add_number("cluster.num_nodes", all.nodes, "gpus", fmt::format("{} GPUs in all", run.cluster.gpus));
  items.add_number("cluster.gpus_per_node", all.per_node, "gpus", fmt::format("{} GPUs in all", run.cluster.gpus));
  items.add_flag("policy.generation.colocated.enabled", run.is_colocated(), "placement",
                 run.is_colocated() ? "trainer and servers share their GPUs"
                                    : fmt::format("{} GPUs train, {} serve", run.trainer_gpus, run.inference_gpus));
  if (run.is_colocated()) return {};
  // On one node the servers take some of its GPUs, else whole nodes.
  if (all.nodes == 1) {
    items.add_number(fmt::format("{}.num_nodes", kResources), 1, "inference_num_workers");
    items.add_number(fmt::format("{}.gpus_per_node", kResources), run.inference_gpus, "inference_num_workers");
    return {};
  }
  PLIMSOLL_TRY(serving, nodes_of(run.inference_gpus, all.per_node, "inference_num_workers"));
  if (serving.per_node != all.per_node)
    return bad_input(fmt::format("inference_num_workers {} is not a number of whole nodes of {} GPUs",
                                 run.inference_gpus, all.per_node),
                     "NeMo-RL gives whole nodes to generation when there are several");
  items.add_number(fmt::format("{}.num_nodes", kResources), serving.nodes, "inference_num_workers");
  items.add_number(fmt::format("{}.gpus_per_node", kResources), serving.per_node, "inference_num_workers");
  return {};
}

}  // namespace

Status encode_nemo_rl(const Run& run, Items& items) {
  PLIMSOLL_TRY_STATUS(check(run));
  items.add_flag(
      "grpo.async_grpo.enabled", run.staleness.mode != Mode::kSync, "mode",
      run.staleness.mode != Mode::kSync ? "generation runs beside training" : "generation and training in turns");
  if (run.staleness.mode != Mode::kSync)
    items.add_number("grpo.async_grpo.max_trajectory_age_steps", static_cast<std::int64_t>(run.staleness.limit),
                     "max_async_rollout");
  for (const KeyName& name : key_names_in(Framework::kNemoRl))
    items.add_setting(std::string{name.path}, std::string{name.key});
  PLIMSOLL_TRY(batch, per_minibatch(run.samples_per_step(), run.algorithm.minibatches));
  items.add_number("policy.train_global_batch_size", batch, "number_of_minibatches",
                   fmt::format("samples of one optimizer step, {} per batch", run.algorithm.minibatches));
  items.add_number("policy.train_micro_batch_size", 1, "", "a micro-batch is one packed sequence");
  if (run.server.kv != inference::KvType::kAuto)
    items.add_word("policy.generation.vllm_cfg.kv_cache_dtype", inference::name_of(run.server.kv), "kv_cache_dtype");
  if (run.server.weights == inference::WeightType::kFp8)
    items.add_word("policy.generation.vllm_cfg.precision", "fp8", "inference_weights");
  items.add(
      "loss_fn.reference_policy_kl_penalty", document::parse_scalar(run.algorithm.reference_pass ? "0.01" : "0"),
      "reference_pass",
      run.algorithm.reference_pass ? "a frozen model's log-probabilities: one forward more" : "no reference model");
  items.add_flag("policy.dtensor_cfg.enabled", !is_megatron(run), "trainer_framework");
  items.add_flag("policy.megatron_cfg.enabled", is_megatron(run), "trainer_framework");
  if (is_megatron(run)) {
    add_trainer_names(run, kMegatron, items);
    add_recomputation(run, items);
  } else {
    add_trainer_names(run, kDtensor, items);
  }
  return add_pools(run, items);
}

namespace {

// One switch over Megatron's own: whole layers unless the file says how.
void take_recomputation(Values& values, Settings& settings) {
  const bool recomputes = values.take_flag("policy.megatron_cfg.activation_checkpointing").value_or(false);
  std::string granularity = values.take_word("policy.megatron_cfg.recompute_granularity");
  std::string method = values.take_word("policy.megatron_cfg.recompute_method");
  std::string layers = values.take_word("policy.megatron_cfg.recompute_num_layers");
  if (!recomputes) return;
  if (granularity.empty() || granularity == "null") granularity = "full";
  put_setting(settings, "recompute_granularity", granularity);
  if (granularity != "full") return;
  put_setting(settings, "recompute_method", method.empty() || method == "null" ? "uniform" : method);
  put_setting(settings, "recompute_num_layers", layers.empty() || layers == "null" ? "1" : layers);
}

void take_fp8(Values& values, Settings& settings) {
  const std::string section = "policy.megatron_cfg.fp8_cfg";
  const bool is_on = values.take_flag(section + ".enabled").value_or(false);
  const std::string format = values.take_word(section + ".fp8");
  const std::string recipe = values.take_word(section + ".fp8_recipe");
  const auto gathers = values.take_flag(section + ".fp8_param");
  if (!is_on) return;
  put_setting(settings, "fp8_format", format.empty() ? "e4m3" : format);
  if (!recipe.empty()) put_setting(settings, "fp8_recipe", recipe);
  if (gathers.value_or(false)) put_setting(settings, "fp8_param_gather", "true");
}

void take_adapter(Values& values, Settings& settings, const std::string& section, const char* all) {
  const bool is_on = values.take_flag(section + ".enabled").value_or(false);
  const std::string rank = values.take_word(section + ".dim");
  const std::string targets = values.take_word(section + ".target_modules");
  const bool takes_all = values.take_flag(section + ".match_all_linear").value_or(false);
  if (!is_on) return;
  put_setting(settings, "peft", "lora");
  if (!rank.empty()) put_setting(settings, "lora_rank", rank);
  put_setting(settings, "lora_target_modules", takes_all || targets.empty() || targets == "[]" ? all : targets);
}

// How far generation may be ahead: grpo.async_grpo, or the sampler of the single controller (async_rl), which reads no
// grpo.async_grpo. Its samplers in order count versions ahead, its windowed ones versions behind: the same number.
void take_staleness(Values& values, Settings& settings) {
  const bool async = values.take_flag("grpo.async_grpo.enabled").value_or(false);
  std::string limit = values.take_word("grpo.async_grpo.max_trajectory_age_steps");
  if (!async) limit.clear();
  for (const char* path : {"async_rl.sampler.max_staleness_versions", "async_rl.sampler.max_lookahead_versions"})
    if (const std::string word = values.take_word(path); !word.empty() && word != "null") limit = word;
  const bool is_ahead = !limit.empty() && limit != "0";
  put_setting(settings, "mode", async || is_ahead ? "async" : "sync");
  if (is_ahead) put_setting(settings, "max_async_rollout", limit);
}

}  // namespace

void decode_nemo_rl(Values& values, Settings& settings) {
  for (const KeyName& name : key_names_in(Framework::kNemoRl))
    if (const std::string word = values.take_word(name.path); !word.empty()) put_setting(settings, name.key, word);
  take_staleness(values, settings);

  const auto sane = [](std::int64_t number) { return number > 0 && number < (1 << 20); };
  const auto integer = [&](std::string_view key) {
    const document::Node node = document::parse_scalar(setting(settings, key));
    return node.is_integer() && sane(node.integer) ? node.integer : 0;
  };
  const std::int64_t samples = integer("prompts_batch_size_for_trainer") * integer("group_size");
  const std::int64_t batch = values.take_integer("policy.train_global_batch_size").value_or(0);
  if (samples > 0 && batch > 0 && samples % batch == 0)
    put_setting(settings, "number_of_minibatches", std::to_string(samples / batch));
  // A micro-batch of several sequences is as many tokens, packed or padded: several samples share a bin.
  const std::int64_t micro = values.take_integer("policy.train_micro_batch_size").value_or(1);
  if (micro > 1 && sane(micro) && integer("seq_len") > 0) {
    put_setting(settings, "seq_len", std::to_string(micro * integer("seq_len")));
    put_setting(settings, "packing", "true");
  }
  const bool is_sglang = setting(settings, "engine") == "sglang";
  for (const auto& [path, key] :
       {std::pair{"policy.generation.sglang_cfg.tp_size", "inference_tensor_parallel_size"},
        std::pair{"policy.generation.sglang_cfg.context_length", "max_model_len"},
        std::pair{"policy.generation.sglang_cfg.mem_fraction_static", "gpu_memory_utilization"}})
    if (const std::string word = values.take_word(path); !word.empty() && word != "null" && is_sglang)
      put_setting(settings, key, word);
  if (const std::string word = values.take_word("policy.generation.vllm_cfg.kv_cache_dtype"); !word.empty())
    put_setting(settings, "kv_cache_dtype", word);
  if (const std::string word = values.take_word("policy.generation.vllm_cfg.precision"); word == "fp8")
    put_setting(settings, "inference_weights", word);
  if (const std::string word = values.take_word("loss_fn.reference_policy_kl_penalty"); !word.empty())
    put_setting(settings, "reference_pass", word == "0" || word == "0.0" ? "false" : "true");

  const std::int64_t nodes = values.take_integer("cluster.num_nodes").value_or(1);
  const std::int64_t per_node = values.take_integer("cluster.gpus_per_node").value_or(0);
  const bool colocated = values.take_flag("policy.generation.colocated.enabled").value_or(true);
  put_setting(settings, "placement", colocated ? "colocated" : "disaggregated");
  const std::int64_t all = sane(nodes) && sane(per_node) ? nodes * per_node : 0;
  const std::int64_t serving_nodes = values.take_integer(fmt::format("{}.num_nodes", kResources)).value_or(1);
  const std::int64_t serving_gpus = values.take_integer(fmt::format("{}.gpus_per_node", kResources)).value_or(0);
  if (all > 0) put_setting(settings, "gpus", std::to_string(all));
  if (all > 0 && colocated) {
    put_setting(settings, "trainer_num_workers", std::to_string(all));
    put_setting(settings, "inference_num_workers", std::to_string(all));
  } else if (sane(serving_nodes) && sane(serving_gpus)) {
    const std::int64_t serving = serving_nodes * serving_gpus;
    put_setting(settings, "inference_num_workers", std::to_string(serving));
    if (all > serving) put_setting(settings, "trainer_num_workers", std::to_string(all - serving));
  }
  const bool megatron = values.take_flag("policy.megatron_cfg.enabled").value_or(false);
  static_cast<void>(values.take("policy.dtensor_cfg.enabled"));
  put_setting(settings, "trainer_framework", megatron ? "megatron-lm" : "fsdp2");
  if (megatron) {
    take_trainer_names(values, kMegatron, settings);
    take_recomputation(values, settings);
    take_fp8(values, settings);
    take_adapter(values, settings, "policy.megatron_cfg.peft", "linear_qkv linear_proj linear_fc1 linear_fc2");
  } else {
    take_trainer_names(values, kDtensor, settings);
    take_adapter(values, settings, "policy.dtensor_cfg.lora_cfg", "all-linear");
  }
}

}  // namespace plimsoll::rl
