// SPDX-License-Identifier: Apache-2.0
// OpenRLHF: flags of openrlhf.cli.train_ppo_ray. A switch is on when it is there, so an absent one is off.
#include <cmath>

#include <fmt/format.h>

#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"
#include "rl/keys.h"

namespace plimsoll::rl {

namespace {

constexpr TrainerName kDeepSpeed[] = {
    {"zero_stage", "ds.zero_stage"},
    {"context_parallel_size", "ds.ring_attn_size"},
    {"tensor_model_parallel_size", "ds.tensor_parallel_size"},
};
// Switches of the trainer.
constexpr TrainerName kSwitches[] = {
    {"gradient_checkpointing", "actor.gradient_checkpointing_enable"},
};

bool is_switch(std::string_view key) {
  const Key* found = find_key(key);
  return found != nullptr && type_name(*found) == "boolean";
}

Status check(const Run& run) {
  if (run.trainer_framework != job::Framework::kDeepSpeed)
    return bad_input(
        fmt::format("trainer_framework is {}; OpenRLHF trains with deepspeed", job::name_of(run.trainer_framework)));
  if (run.server.engine != inference::Engine::kVllm) return bad_input("engine is sglang; OpenRLHF serves with vLLM");
  if (run.server.pipeline != 1)
    return bad_input("inference_pipeline_parallel_size: OpenRLHF's engines have no pipeline; wanted 1");
  if (run.staleness.mode == Mode::kAsync && run.staleness.limit != std::floor(run.staleness.limit))
    return bad_input(
        fmt::format("max_async_rollout is {}; OpenRLHF's queue counts whole batches", run.staleness.limit));
  return {};
}

}  // namespace

Status encode_openrlhf(const Run& run, Items& items) {
  PLIMSOLL_TRY_STATUS(check(run));
  for (const KeyName& name : key_names_in(Framework::kOpenRlhf))
    items.add_setting(std::string{name.path}, std::string{name.key});
  PLIMSOLL_TRY(nodes, nodes_of(run.trainer_gpus, run.cluster.gpus_per_node, "trainer_num_workers"));
  items.add_number("actor.num_nodes", nodes.nodes, "trainer_num_workers",
                   fmt::format("{} GPUs train", run.trainer_gpus));
  items.add_number("actor.num_gpus_per_node", nodes.per_node, "trainer_num_workers",
                   fmt::format("{} GPUs train", run.trainer_gpus));
  items.add_number("vllm.num_engines", run.servers(), "inference_num_workers",
                   fmt::format("{} GPUs serve", run.inference_gpus));
  PLIMSOLL_TRY(batch, per_minibatch(run.samples_per_step(), run.algorithm.minibatches));
  items.add_number("train.batch_size", batch, "number_of_minibatches",
                   fmt::format("samples of one optimizer step, {} per batch", run.algorithm.minibatches));
  items.add_flag("train.dynamic_batch_enable", true, "", "bins of at most max_tokens_per_gpu tokens");
  items.add_word("vllm.sync_backend", "nccl", "weight_broadcast_mode");
  items.add_word("algo.advantage.estimator", run.algorithm.critic ? "gae" : "group_norm", "critic",
                 run.algorithm.critic ? "a value model is trained too" : "advantages of the group, no value model");
  if (!run.algorithm.reference_pass) items.add_number("algo.kl.init_coef", 0, "reference_pass", "no reference model");
  if (run.is_colocated()) {
    items.add_flag("train.colocate_all", true, "placement", "trainer and engines share their GPUs");
    items.add_flag("vllm.enable_sleep", run.sleep != SleepLevel::kNone, "sleep_level");
    items.add_flag("ds.enable_sleep", run.offload_trainer, "offload_trainer");
  }
  if (run.staleness.mode != Mode::kSync) {
    items.add_flag("train.async_enable", true, "mode", "generation runs beside training");
    items.add_number("train.async_queue_size", static_cast<std::int64_t>(run.staleness.limit), "max_async_rollout");
  }
  add_trainer_names(run, kDeepSpeed, items);
  add_trainer_names(run, kSwitches, items);
  return {};
}

namespace {

void take_adapter(Values& values, Settings& settings) {
  const auto rank = values.take_integer("ds.lora.rank");
  const std::string targets = values.take_word("ds.lora.target_modules");
  static_cast<void>(values.take("ds.lora.alpha"));
  static_cast<void>(values.take("ds.lora.dropout"));
  if (!rank || *rank < 1) return;
  put_setting(settings, "peft", "lora");
  put_setting(settings, "lora_rank", std::to_string(*rank));
  put_setting(settings, "lora_target_modules", targets.empty() ? "all-linear" : targets);
}

}  // namespace

void decode_openrlhf(Values& values, Settings& settings) {
  for (const KeyName& name : key_names_in(Framework::kOpenRlhf)) {
    const std::string word = values.take_word(name.path);
    if (!word.empty())
      put_setting(settings, name.key, word);
    else if (is_switch(name.key))
      put_setting(settings, name.key, "false");
  }
  if (const std::string word = values.take_word("data.prompt_max_len"); !word.empty())
    put_setting(settings, "prompt_max", word);
  // What the flags are where they are not given (cli/train_ppo_ray.py).
  const auto otherwise = [&](const char* key, const char* path, const char* value) {
    if (setting(settings, key).empty() && values.unknown().find(path) == values.unknown().end())
      put_setting(settings, key, value);
  };
  otherwise("group_size", "rollout.n_samples_per_prompt", "1");
  otherwise("prompts_batch_size_for_trainer", "rollout.batch_size", "1024");
  otherwise("max_tokens", "rollout.max_new_tokens", "1024");
  take_adapter(values, settings);
  const std::int64_t nodes = values.take_integer("actor.num_nodes").value_or(1);
  const std::int64_t per_node = values.take_integer("actor.num_gpus_per_node").value_or(8);
  const std::int64_t engines = values.take_integer("vllm.num_engines").value_or(0);
  const auto tensor_text = setting(settings, "inference_tensor_parallel_size");
  const document::Node tensor_node = document::parse_scalar(tensor_text.empty() ? "1" : tensor_text);
  const std::int64_t tensor = tensor_node.is_integer() ? tensor_node.integer : 1;
  const auto sane = [](std::int64_t number) { return number > 0 && number < (1 << 20); };
  const bool colocated = values.take_flag("train.colocate_all").value_or(false);
  const bool async = values.take_flag("train.async_enable").value_or(false);
  put_setting(settings, "placement", colocated && !async ? "colocated" : "disaggregated");
  put_setting(settings, "mode", async ? "async" : "sync");
  const std::int64_t trainer = sane(nodes) && sane(per_node) ? nodes * per_node : 0;
  const std::int64_t serving = sane(engines) && sane(tensor) ? engines * tensor : 0;
  if (trainer > 0) put_setting(settings, "trainer_num_workers", std::to_string(trainer));
  if (serving > 0) put_setting(settings, "inference_num_workers", std::to_string(serving));
  if (trainer > 0) put_setting(settings, "gpus", std::to_string(colocated && !async ? trainer : trainer + serving));

  const auto integer = [&](std::string_view key) {
    const document::Node node = document::parse_scalar(setting(settings, key));
    return node.is_integer() && sane(node.integer) ? node.integer : 0;
  };
  const std::int64_t samples = integer("prompts_batch_size_for_trainer") * integer("group_size");
  const std::int64_t batch = values.take_integer("train.batch_size").value_or(0);
  if (samples > 0 && batch > 0 && samples % batch == 0)
    put_setting(settings, "number_of_minibatches", std::to_string(samples / batch));
  // Without dynamic batches a micro-batch is a number of samples, each as long as the longest.
  const bool is_dynamic = values.take_flag("train.dynamic_batch_enable").value_or(false);
  const std::int64_t micro = values.take_integer("train.micro_batch_size").value_or(0);
  static_cast<void>(values.take("rollout.micro_batch_size"));  // passes without gradients
  const std::int64_t longest =
      integer("max_model_len") > 0 ? integer("max_model_len") : integer("prompt_max") + integer("max_tokens");
  if (!is_dynamic && micro > 0 && sane(micro) && longest > 0)
    put_setting(settings, "seq_len", std::to_string(micro * longest));
  if (values.take_flag("ds.adam_offload").value_or(false)) put_setting(settings, "offload_optimizer_device", "cpu");
  static_cast<void>(values.take("vllm.sync_backend"));
  if (const std::string word = values.take_word("algo.advantage.estimator"); !word.empty())
    put_setting(settings, "critic", word == "gae" ? "true" : "false");
  if (const std::string word = values.take_word("algo.kl.init_coef"); !word.empty())
    put_setting(settings, "reference_pass", word == "0" || word == "0.0" ? "false" : "true");
  if (colocated) {
    put_setting(settings, "sleep_level", values.take_flag("vllm.enable_sleep").value_or(false) ? "2" : "none");
    put_setting(settings, "offload_trainer", values.take_flag("ds.enable_sleep").value_or(false) ? "true" : "false");
  }
  if (const std::string word = values.take_word("train.async_queue_size"); !word.empty())
    put_setting(settings, "max_async_rollout", word);
  take_trainer_names(values, kDeepSpeed, settings);
  for (const TrainerName& name : kSwitches)
    put_setting(settings, name.key, values.take_flag(name.path).value_or(false) ? "true" : "false");
}

}  // namespace plimsoll::rl
