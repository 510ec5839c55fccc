// SPDX-License-Identifier: Apache-2.0
// Telescope: one flat YAML over configs/defaults/default_train.yaml; unknown keys are refused there.
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"

namespace plimsoll::rl {

namespace {

constexpr TrainerName kMegatron[] = {
    {"tensor_model_parallel_size", "megatron_tensor_parallel_size"},
    {"pipeline_model_parallel_size", "megatron_pipeline_parallel_size"},
    {"context_parallel_size", "megatron_context_parallel_size"},
    {"expert_model_parallel_size", "megatron_expert_parallel_size"},
    {"grad_reduce_in_fp32", "megatron_grad_reduce_in_fp32"},
    {"use_distributed_optimizer", "megatron_use_distributed_optimizer"},
    {"optimizer_cpu_offload", "megatron_optimizer_cpu_offload"},
    {"optimizer_offload_fraction", "megatron_optimizer_offload_fraction"},
};
constexpr TrainerName kFsdp[] = {
    {"context_parallel_size", "fsdp_context_parallel_size"},
};

bool is_megatron(const Run& run) { return job::facts_of(run.trainer_framework).is_megatron; }

std::string_view trainer_key(const Run& run, std::string_view key) {
  for (const auto& [name, value] : run.trainer_keys)
    if (name == key) return value;
  return {};
}

Status check(const Run& run) {
  if (run.is_colocated())
    return bad_input("placement is colocated; Telescope keeps trainer and servers on separate GPUs");
  if (!is_megatron(run) && run.trainer_framework != job::Framework::kFsdp2)
    return bad_input(fmt::format("trainer_framework is {}; Telescope trains with fsdp2 or Megatron",
                                 job::name_of(run.trainer_framework)));
  if (run.staleness.limit != std::floor(run.staleness.limit))
    return bad_input(fmt::format("max_async_rollout is {}; Telescope counts whole batches", run.staleness.limit));
  if (run.server.engine != inference::Engine::kVllm) return bad_input("engine is sglang; Telescope serves with vLLM");
  if (run.server.pipeline != 1)
    return bad_input("inference_pipeline_parallel_size: Telescope's servers have no pipeline; wanted 1");
  return {};
}

}  // namespace

Status encode_telescope(const Run& run, Items& items) {
  PLIMSOLL_TRY_STATUS(check(run));
  for (const KeyName& name : key_names_in(Framework::kTelescope))
    items.add_setting(std::string{name.path}, std::string{name.key});
  items.add_word("ppo_clip_ref_logprobs", run.algorithm.logprob_pass ? "batch" : "rollout", "logprob_pass",
                 run.algorithm.logprob_pass ? "the trainer recomputes the old log-probabilities: one forward more"
                                            : "the servers' log-probabilities, no extra forward");
  items.add_word("weight_broadcast_mode", replace(name_of(run.sync.mode), '-', '_'), "weight_broadcast_mode");
  items.add_number("weight_broadcast_bucket_mb", run.sync.bucket_bytes / kMiB, "weight_broadcast_bucket_mb");
  items.add_word("train_backend", is_megatron(run) ? "megatron" : "fsdp", "trainer_framework");
  if (is_megatron(run)) {
    add_trainer_names(run, kMegatron, items);
    items.add_flag("megatron_gradient_checkpointing", trainer_key(run, "recompute_granularity") == "full",
                   "recompute_granularity", "recompute activations in the backward pass");
    items.add_flag("megatron_use_transformer_engine", trainer_key(run, "transformer_impl") == "transformer_engine",
                   "transformer_impl", "Transformer Engine's modules");
    if (trainer_key(run, "fp8") == "e4m3")
      items.add_flag("megatron_fp8", true, "fp8", "FP8 products with delayed scaling");
  } else {
    add_trainer_names(run, kFsdp, items);
  }
  return {};
}

void decode_telescope(Values& values, Settings& settings) {
  for (const KeyName& name : key_names_in(Framework::kTelescope))
    if (const std::string word = values.take_word(name.path); !word.empty()) put_setting(settings, name.key, word);
  if (const std::string word = values.take_word("ppo_clip_ref_logprobs"); !word.empty())
    put_setting(settings, "logprob_pass", word == "batch" ? "true" : "false");
  if (const std::string word = values.take_word("weight_broadcast_mode"); !word.empty())
    put_setting(settings, "weight_broadcast_mode", replace(word, '_', '-'));
  if (const std::string word = values.take_word("weight_broadcast_bucket_mb"); !word.empty())
    put_setting(settings, "weight_broadcast_bucket_mb", word);
  if (const std::string limit{setting(settings, "max_async_rollout")}; !limit.empty())
    put_setting(settings, "mode", limit == "0" ? "sync" : "async");
  const std::string backend = values.take_word("train_backend");
  if (!backend.empty()) put_setting(settings, "trainer_framework", backend == "megatron" ? "megatron-lm" : "fsdp2");
  if (backend == "megatron") {
    take_trainer_names(values, kMegatron, settings);
    for (const char* key : {"megatron_gradient_checkpointing", "megatron_use_transformer_engine", "megatron_fp8"})
      if (const std::string word = values.take_word(key); !word.empty()) put_setting(settings, key, word);
  } else {
    take_trainer_names(values, kFsdp, settings);
  }
}

}  // namespace plimsoll::rl
