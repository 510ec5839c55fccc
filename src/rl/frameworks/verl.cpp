// SPDX-License-Identifier: Apache-2.0
// verl: Hydra overrides on a command line. Three programs: main_ppo (synchronous, hybrid engine), one_step_off_policy
// and fully_async_policy (separate pools; a trainer step takes require_batches minibatches).
#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"
#include "job/keys.h"
#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"

namespace plimsoll::rl {

namespace {

constexpr TrainerName kFsdp[] = {
    {"gradient_checkpointing", "actor_rollout_ref.model.enable_gradient_checkpointing"},
    {"context_parallel_size", "actor_rollout_ref.actor.ulysses_sequence_parallel_size"},
    {"offload_checkpointed_inputs", "actor_rollout_ref.model.enable_activation_offload"},
    {"fsdp_cpu_offload", "actor_rollout_ref.actor.fsdp_config.offload_policy"},
};
constexpr TrainerName kMegatron[] = {
    {"tensor_model_parallel_size", "actor_rollout_ref.actor.megatron.tensor_model_parallel_size"},
    {"pipeline_model_parallel_size", "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size"},
    {"context_parallel_size", "actor_rollout_ref.actor.megatron.context_parallel_size"},
    {"expert_model_parallel_size", "actor_rollout_ref.actor.megatron.expert_model_parallel_size"},
    {"expert_tensor_parallel_size", "actor_rollout_ref.actor.megatron.expert_tensor_parallel_size"},
    {"virtual_pipeline_model_parallel_size", "actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size"},
    {"sequence_parallel", "actor_rollout_ref.actor.megatron.sequence_parallel"},
    {"recompute_granularity", "actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity"},
    {"recompute_method", "actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method"},
    {"recompute_num_layers", "actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers"},
};

constexpr const char* kTrainBatch = "data.train_batch_size";
constexpr const char* kMiniBatch = "actor_rollout_ref.actor.ppo_mini_batch_size";
constexpr const char* kRequired = "async_training.require_batches";
constexpr const char* kSyncBucket = "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes";
constexpr const char* kAsyncBucket = "async_training.checkpoint_engine.device_buffer_size_M";

bool is_megatron(const Run& run) { return job::facts_of(run.trainer_framework).is_megatron; }

Status add_pools(const Run& run, Items& items) {
  PLIMSOLL_TRY(trainer, nodes_of(run.trainer_gpus, run.cluster.gpus_per_node, "trainer_num_workers"));
  items.add_number("trainer.nnodes", trainer.nodes, "trainer_num_workers",
                   fmt::format("{} GPUs train", run.trainer_gpus));
  items.add_number("trainer.n_gpus_per_node", trainer.per_node, "trainer_num_workers",
                   fmt::format("{} GPUs train", run.trainer_gpus));
  if (run.is_colocated()) return {};
  PLIMSOLL_TRY(rollout, nodes_of(run.inference_gpus, run.cluster.gpus_per_node, "inference_num_workers"));
  items.add_number("rollout.nnodes", rollout.nodes, "inference_num_workers",
                   fmt::format("{} GPUs serve, {} servers", run.inference_gpus, run.servers()));
  items.add_number("rollout.n_gpus_per_node", rollout.per_node, "inference_num_workers",
                   fmt::format("{} GPUs serve, {} servers", run.inference_gpus, run.servers()));
  items.add_flag("actor_rollout_ref.hybrid_engine", false, "placement", "trainer and servers have GPUs of their own");
  return {};
}

Status add_batch(const Run& run, Items& items) {
  const std::int64_t prompts = run.algorithm.prompts_per_step;
  PLIMSOLL_TRY(mini, per_minibatch(prompts, run.algorithm.minibatches));
  const bool streams = run.staleness.mode == Mode::kAsync;
  items.add_number(kTrainBatch, streams ? 0 : prompts, "prompts_batch_size_for_trainer",
                   streams ? "samples come one by one; a step takes require_batches minibatches" : "");
  if (streams) items.add_number("data.gen_batch_size", 1, "", "the only value that fully asynchronous training takes");
  items.add_number(kMiniBatch, mini, "number_of_minibatches",
                   fmt::format("prompts of one optimizer step, {} per batch", run.algorithm.minibatches));
  if (!streams) return {};
  items.add_number("rollout.n", run.algorithm.group_size, "group_size");
  items.add_number(kRequired, run.algorithm.minibatches, "prompts_batch_size_for_trainer",
                   fmt::format("minibatches of a trainer step: {} prompts", prompts));
  items.add_setting("async_training.staleness_threshold", "max_async_rollout");
  items.add_setting("async_training.trigger_parameter_sync_step", "trigger_parameter_sync_step");
  items.add_setting("async_training.partial_rollout", "in_flight_weight_updates");
  items.add_flag("async_training.use_rollout_log_probs", !run.algorithm.logprob_pass, "logprob_pass",
                 run.algorithm.logprob_pass ? "the trainer recomputes the old log-probabilities: one forward more"
                                            : "the servers' log-probabilities, no extra forward");
  items.add_flag("async_training.checkpoint_engine.enable", run.sync.mode == SyncMode::kCheckpointEngine,
                 "weight_broadcast_mode");
  return {};
}

}  // namespace

Status encode_verl(const Run& run, Items& items) {
  if (!is_megatron(run) && run.trainer_framework != job::Framework::kFsdp2)
    return bad_input(fmt::format("trainer_framework is {}; verl trains with fsdp2 or Megatron",
                                 job::name_of(run.trainer_framework)));
  for (const KeyName& name : key_names_in(Framework::kVerl))
    items.add_setting(std::string{name.path}, std::string{name.key});
  items.add_flag("actor_rollout_ref.actor.use_dynamic_bsz", true, "",
                 "bins of at most ppo_max_token_len_per_gpu tokens");
  items.add_word("algorithm.adv_estimator", run.algorithm.critic ? "gae" : "grpo", "critic",
                 run.algorithm.critic ? "a value model is trained too" : "advantages of the group, no value model");
  PLIMSOLL_TRY_STATUS(add_batch(run, items));
  PLIMSOLL_TRY_STATUS(add_pools(run, items));
  items.add_number(run.staleness.mode == Mode::kAsync ? kAsyncBucket : kSyncBucket, run.sync.bucket_bytes / kMiB,
                   "weight_broadcast_bucket_mb");
  items.add_word("actor_rollout_ref.actor.strategy", is_megatron(run) ? "megatron" : "fsdp2", "trainer_framework");
  if (is_megatron(run)) {
    add_trainer_names(run, kMegatron, items);
    const bool says_sequence = std::any_of(run.trainer_keys.begin(), run.trainer_keys.end(),
                                           [](const auto& key) { return key.first == "sequence_parallel"; });
    if (is_megatron(run) && !says_sequence)
      items.add_flag("actor_rollout_ref.actor.megatron.sequence_parallel", false, "sequence_parallel",
                     "on by default in verl");
  } else {
    add_trainer_names(run, kFsdp, items);
  }
  if (run.is_colocated()) {
    items.add_flag("actor_rollout_ref.rollout.free_cache_engine", run.sleep != SleepLevel::kNone, "sleep_level");
    const char* offload = is_megatron(run) ? "actor_rollout_ref.actor.megatron" : "actor_rollout_ref.actor.fsdp_config";
    items.add_flag(fmt::format("{}.param_offload", offload), run.offload_trainer, "offload_trainer");
    items.add_flag(fmt::format("{}.optimizer_offload", offload), run.offload_trainer, "offload_trainer");
  }
  return {};
}

namespace {

// On unless the file says no, which is Megatron's own default (verl/trainer/config/engine/megatron.yaml).
void take_sequence_parallel(Settings& settings) {
  const bool is_off = job::is_off(document::parse_scalar(setting(settings, "sequence_parallel"))) &&
                      !setting(settings, "sequence_parallel").empty();
  std::erase_if(settings, [](const auto& one) { return one.first == "sequence_parallel"; });
  if (!is_off) put_setting(settings, "sequence_parallel", "true");
}

// Without dynamic batches a micro-batch is a number of samples; each may be as long as prompt and response together.
void take_micro_batch(Values& values, std::int64_t trainer, Settings& settings) {
  const bool is_dynamic = values.take_flag("actor_rollout_ref.actor.use_dynamic_bsz").value_or(false);
  auto micro = values.take_integer("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu");
  // The old name counts over all GPUs.
  const auto over_all = values.take_integer("actor_rollout_ref.actor.ppo_micro_batch_size");
  const auto of_forks = values.take_integer("actor_rollout_ref.actor.micro_batch_size");  // recipes with Megatron
  if (!micro && of_forks) micro = of_forks;
  if (!micro && over_all && trainer > 0) micro = std::max<std::int64_t>(1, *over_all / trainer);
  if (is_dynamic || !micro || *micro < 1 || *micro > (1 << 20)) return;
  const auto length = [&settings](std::string_view key, std::int64_t otherwise) {
    const document::Node node = document::parse_scalar(setting(settings, key));
    return node.is_integer() && node.integer > 0 && node.integer < (1 << 26) ? node.integer : otherwise;
  };
  put_setting(settings, "seq_len", std::to_string(*micro * (length("prompt_max", 512) + length("max_tokens", 512))));
}

// override_transformer_config.X is X of Megatron's TransformerConfig; what the trainer's job has a key for is read.
void take_transformer_config(Values& values, Settings& settings) {
  constexpr std::string_view kPrefix = "actor_rollout_ref.actor.megatron.override_transformer_config.";
  for (const std::string& path : values.left_over()) {
    if (!path.starts_with(kPrefix)) continue;
    const std::string name = path.substr(kPrefix.size());
    const job::Alias* alias = job::find_alias(job::kCanonical, name);
    const bool sets = job::is_key(name) || (alias != nullptr && alias->kind == job::AliasKind::kKey);
    const document::Node* value = values.look(path);
    if (!sets || value == nullptr || value->is_null()) continue;
    put_setting(settings, name, values.take_word(path));
  }
}

// Types of 16 bits differ in their scaling alone; servers may hold weights in fewer.
void take_precision(Values& values, bool is_megatron, Settings& settings) {
  constexpr const char* kServed = "actor_rollout_ref.rollout.dtype";
  constexpr const char* kTrained = "actor_rollout_ref.actor.megatron.dtype";
  const auto is_half = [](const document::Node* value) {
    const std::string word = value == nullptr ? std::string{} : lower(document::to_text(*value));
    return word == "float16" || word == "fp16" || word == "half";
  };
  if (is_half(values.look(kServed))) static_cast<void>(values.take(kServed));
  if (is_half(values.look(kTrained))) {
    static_cast<void>(values.take(kTrained));
    if (is_megatron) put_setting(settings, "fp16", "true");
  }
  constexpr const char* kQuantized = "actor_rollout_ref.rollout.quantization";
  if (const document::Node* value = values.look(kQuantized);
      value != nullptr && (document::to_text(*value) == "fp8" || document::to_text(*value) == "int8"))
    put_setting(settings, "inference_weights", values.take_word(kQuantized));
}

// Shards over fewer ranks than there are: the rest are replicas.
void take_shards(Values& values, std::int64_t trainer, Settings& settings) {
  const std::int64_t shards = values.take_integer("actor_rollout_ref.actor.fsdp_config.fsdp_size").value_or(-1);
  if (shards > 0 && trainer > shards && trainer % shards == 0)
    put_setting(settings, "dp_replicate", std::to_string(trainer / shards));
}

// Adapters of FSDP's trainers are named in the model's table, those of Megatron's in a table of their own
// (trainer/config/model/hf_model.yaml), which Megatron-Bridge reads.
void take_adapter(Values& values, Settings& settings) {
  constexpr std::string_view kTable = "actor_rollout_ref.model.lora.";
  const auto path = [kTable](std::string_view key) { return fmt::format("{}{}", kTable, key); };
  auto rank = values.take_integer("actor_rollout_ref.model.lora_rank");
  std::string targets = values.take_word("actor_rollout_ref.model.target_modules");
  if (const auto nested = values.take_integer(path("rank"))) rank = nested;
  if (const std::string nested = values.take_word(path("target_modules")); !nested.empty()) targets = nested;
  const std::string kind = values.take_word(path("type"));
  const std::string dropout = values.take_word(path("dropout"));
  const std::string dtype = values.take_word(path("dtype"));
  static_cast<void>(values.take("actor_rollout_ref.model.lora_alpha"));
  static_cast<void>(values.take("actor_rollout_ref.rollout.load_format"));
  static_cast<void>(values.take("actor_rollout_ref.rollout.layered_summon"));
  if (!rank || *rank < 1) return;
  put_setting(settings, "peft", kind == "dora" ? "dora" : "lora");
  put_setting(settings, "lora_rank", std::to_string(*rank));
  put_setting(settings, "lora_target_modules", targets.empty() ? "all-linear" : targets);
  if (!dropout.empty() && dropout != "null") put_setting(settings, "lora_dropout", dropout);
  if (!dtype.empty() && dtype != "null") put_setting(settings, "adapter_dtype", dtype);
}

// Forks repeat the prompts themselves before they ask the servers: PRIME and DeepScaleR by data.n_samples, Search-R1
// and what is built on it by rollout.n_agent (trainer/ppo/ray_trainer.py of each).
void take_repeated_prompts(Values& values, Settings& settings) {
  for (const char* path : {"actor_rollout_ref.rollout.n_agent", "data.n_samples"}) {
    const std::int64_t times = values.take_integer(path).value_or(1);
    const document::Node served = document::parse_scalar(setting(settings, "group_size"));
    const std::int64_t each = served.is_integer() && served.integer > 0 ? served.integer : 1;
    if (times > 1 && times < (1 << 16) && each < (1 << 16))
      put_setting(settings, "group_size", std::to_string(times * each));
  }
}

}  // namespace

void decode_verl(Values& values, Settings& settings) {
  for (const KeyName& name : key_names_in(Framework::kVerl))
    if (const std::string word = values.take_word(name.path); !word.empty()) put_setting(settings, name.key, word);
  take_adapter(values, settings);
  static_cast<void>(values.take("data.gen_batch_size"));
  if (const std::string word = values.take_word("rollout.n"); !word.empty()) put_setting(settings, "group_size", word);
  take_repeated_prompts(values, settings);
  if (setting(settings, "group_size").empty() &&
      values.unknown().find("actor_rollout_ref.rollout.n") == values.unknown().end())
    put_setting(settings, "group_size", "1");  // verl's default
  if (const std::string word = values.take_word("algorithm.adv_estimator"); !word.empty())
    put_setting(settings, "critic", word == "gae" ? "true" : "false");
  else if (values.has_section("critic"))
    put_setting(settings, "critic", "true");  // gae is verl's default (trainer/config/ppo_trainer.yaml)

  const bool streams = values.has("async_training.staleness_threshold") || values.has(kRequired);
  const std::int64_t mini = values.take_integer(kMiniBatch).value_or(0);
  const std::int64_t batch = values.take_integer(kTrainBatch).value_or(0);
  const std::int64_t required = values.take_integer(kRequired).value_or(1);
  const std::int64_t prompts = batch > 0                                              ? batch
                               : mini > 0 && mini < (1 << 24) && required < (1 << 24) ? mini * required
                                                                                      : 0;
  if (prompts > 0) put_setting(settings, "prompts_batch_size_for_trainer", std::to_string(prompts));
  if (prompts > 0 && mini > 0 && prompts % mini == 0)
    put_setting(settings, "number_of_minibatches", std::to_string(prompts / mini));
  const std::pair<const char*, const char*> kRules[] = {
      {"async_training.staleness_threshold", "max_async_rollout"},
      {"async_training.trigger_parameter_sync_step", "trigger_parameter_sync_step"},
      {"async_training.partial_rollout", "in_flight_weight_updates"},
      {kSyncBucket, "weight_broadcast_bucket_mb"},
      {kAsyncBucket, "weight_broadcast_bucket_mb"},
  };
  for (const auto& [path, key] : kRules)
    if (const std::string word = values.take_word(path); !word.empty()) put_setting(settings, key, word);
  if (const auto own = values.take_flag("async_training.use_rollout_log_probs"))
    put_setting(settings, "logprob_pass", *own ? "false" : "true");
  if (const auto engine = values.take_flag("async_training.checkpoint_engine.enable"))
    put_setting(settings, "weight_broadcast_mode", *engine ? "checkpoint-engine" : "flattened-bucket");

  const auto pool = [&](std::string_view prefix) -> std::int64_t {
    const auto nodes = values.take_integer(fmt::format("{}.nnodes", prefix));
    const auto per_node = values.take_integer(fmt::format("{}.n_gpus_per_node", prefix));
    if (!nodes && !per_node) return 0;
    const std::int64_t a = nodes.value_or(1);
    const std::int64_t b = per_node.value_or(8);
    return a > 0 && b > 0 && a < (1 << 20) && b < (1 << 20) ? a * b : 0;
  };
  const std::int64_t trainer = pool("trainer");
  const std::int64_t rollout = pool("rollout");
  take_micro_batch(values, trainer, settings);
  const bool separate = rollout > 0 || !values.take_flag("actor_rollout_ref.hybrid_engine").value_or(true);
  if (trainer > 0) put_setting(settings, "trainer_num_workers", std::to_string(trainer));
  if (rollout > 0) put_setting(settings, "inference_num_workers", std::to_string(rollout));
  if (trainer > 0) put_setting(settings, "gpus", std::to_string(trainer + rollout));
  if (trainer > 0 && !separate) put_setting(settings, "inference_num_workers", std::to_string(trainer));
  put_setting(settings, "placement", separate ? "disaggregated" : "colocated");
  put_setting(settings, "mode", streams ? "async" : separate ? "one-step-off" : "sync");

  std::string strategy = values.take_word("actor_rollout_ref.actor.strategy");
  if (values.take_word("config-name").find("megatron") != std::string::npos) strategy = "megatron";
  if (!strategy.empty()) put_setting(settings, "trainer_framework", strategy == "megatron" ? "megatron-lm" : "fsdp2");
  if (strategy == "megatron") {
    take_trainer_names(values, kMegatron, settings);
    take_sequence_parallel(settings);
    take_transformer_config(values, settings);
    // Recomputation is Megatron's own there; the switch of Transformers' models has no effect.
    static_cast<void>(values.take("actor_rollout_ref.model.enable_gradient_checkpointing"));
  } else {
    take_trainer_names(values, kFsdp, settings);
    take_shards(values, trainer, settings);
    if (const std::string dtype = values.take_word("actor_rollout_ref.actor.fsdp_config.model_dtype"); !dtype.empty())
      put_setting(settings, "stored_dtype", dtype);
  }
  take_precision(values, strategy == "megatron", settings);
  if (const auto sleeps = values.take_flag("actor_rollout_ref.rollout.free_cache_engine"))
    put_setting(settings, "sleep_level", *sleeps ? "2" : "none");
  for (const char* prefix : {"actor_rollout_ref.actor.megatron", "actor_rollout_ref.actor.fsdp_config"}) {
    const auto parameters = values.take_flag(fmt::format("{}.param_offload", prefix));
    const auto optimizer = values.take_flag(fmt::format("{}.optimizer_offload", prefix));
    static_cast<void>(values.take(fmt::format("{}.grad_offload", prefix)));  // goes with the parameters
    if (parameters || optimizer)
      put_setting(settings, "offload_trainer",
                  parameters.value_or(false) || optimizer.value_or(false) ? "true" : "false");
  }
}

}  // namespace plimsoll::rl
