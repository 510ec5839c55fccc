// SPDX-License-Identifier: Apache-2.0
// prime-rl: one TOML for trainer, orchestrator and inference. On one node GPUs are counted, on several nodes.
#include <algorithm>

#include <fmt/format.h>

#include "rl/frameworks/config.h"
#include "rl/frameworks/items.h"
#include "rl/frameworks/settings.h"

namespace plimsoll::rl {

namespace {

constexpr TrainerName kTrainer[] = {
    {"context_parallel_size", "trainer.model.cp"},
    {"expert_model_parallel_size", "trainer.model.ep"},
};

constexpr const char* kChunk = "trainer.model.fused_lm_head_token_chunk_size";
constexpr const char* kInflight = "orchestrator.concurrency.max_inflight";

Status check(const Run& run) {
  if (run.is_colocated())
    return bad_input("placement is colocated; prime-rl keeps trainer and servers on separate GPUs");
  if (run.trainer_framework != job::Framework::kFsdp2)
    return bad_input(
        fmt::format("trainer_framework is {}; prime-rl trains with fsdp2", job::name_of(run.trainer_framework)));
  if (run.server.engine != inference::Engine::kVllm) return bad_input("engine is sglang; prime-rl serves with vLLM");
  if (run.server.pipeline != 1)
    return bad_input("inference_pipeline_parallel_size: prime-rl's servers have no pipeline; wanted 1");
  return {};
}

Status add_pools(const Run& run, Items& items) {
  const std::int64_t node = run.cluster.gpus_per_node;
  if (run.trainer_gpus + run.inference_gpus <= node) {
    items.add_word("deployment.type", "single_node", "", "both pools fit one node");
    items.add_number("deployment.num_train_gpus", run.trainer_gpus, "trainer_num_workers");
    items.add_number("deployment.num_infer_gpus", run.inference_gpus, "inference_num_workers");
    return {};
  }
  PLIMSOLL_TRY_STATUS(check_pools(run));
  items.add_word("deployment.type", "multi_node", "", "the pools are whole nodes");
  items.add_number("deployment.num_train_nodes", run.trainer_gpus / node, "trainer_num_workers",
                   fmt::format("{} GPUs train", run.trainer_gpus));
  items.add_number("deployment.num_infer_nodes", run.inference_gpus / node, "inference_num_workers",
                   fmt::format("{} GPUs serve, {} servers", run.inference_gpus, run.servers()));
  return {};
}

std::string_view trainer_key(const Run& run, std::string_view key) {
  for (const auto& [name, value] : run.trainer_keys)
    if (name == key) return value;
  return {};
}

}  // namespace

std::int64_t pool_unit(const Run& run) {
  const std::int64_t node = std::max<std::int64_t>(1, run.cluster.gpus_per_node);
  return run.framework == Framework::kPrimeRl && run.cluster.gpus > node ? node : 1;
}

Status check_pools(const Run& run) {
  const std::int64_t unit = run.trainer_gpus + run.inference_gpus > run.cluster.gpus_per_node ? pool_unit(run) : 1;
  if (run.trainer_gpus % unit == 0 && run.inference_gpus % unit == 0) return {};
  return bad_input(fmt::format("trainer_num_workers {} and inference_num_workers {} are not whole nodes of {} GPUs",
                               run.trainer_gpus, run.inference_gpus, unit),
                   "prime-rl counts nodes when the run does not fit one");
}

Status encode_prime_rl(const Run& run, Items& items) {
  PLIMSOLL_TRY_STATUS(check(run));
  items.add_setting("model.name", "model");
  PLIMSOLL_TRY_STATUS(add_pools(run, items));
  for (const KeyName& name : key_names_in(Framework::kPrimeRl))
    if (name.key != "model") items.add_setting(std::string{name.path}, std::string{name.key});
  items.add_number("orchestrator.batch_size", run.samples_per_step(), "prompts_batch_size_for_trainer",
                   fmt::format("samples of a trainer step: {} prompts", run.algorithm.prompts_per_step));
  items.add_setting("orchestrator.seq_len", "max_model_len");
  if (run.lanes.prompts_per_server > 0)
    items.add_number(kInflight, run.lanes_per_server() * run.servers(), "max_concurrent_prompts_per_server");
  if (run.loss_chunk > 0)
    items.add_number(kChunk, run.loss_chunk, "loss_chunk");
  else
    items.add_word(kChunk, "disabled", "loss_chunk");
  items.add_word("weight_broadcast.type", "nccl", "weight_broadcast_mode");
  add_trainer_names(run, kTrainer, items);
  if (trainer_key(run, "gradient_checkpointing") == "true")
    items.add_word("trainer.model.ac.mode", "full", "gradient_checkpointing", "recompute activations layer by layer");
  return {};
}

void decode_prime_rl(Values& values, Settings& settings) {
  for (const KeyName& name : key_names_in(Framework::kPrimeRl))
    if (const std::string word = values.take_word(name.path); !word.empty()) put_setting(settings, name.key, word);
  // One length for trainer and servers, unless one of them has its own.
  if (const std::string word = values.take_word("seq_len"); !word.empty()) {
    if (setting(settings, "seq_len").empty()) put_setting(settings, "seq_len", word);
    if (setting(settings, "max_model_len").empty()) put_setting(settings, "max_model_len", word);
  }
  if (const auto rank = values.take_integer("trainer.model.lora.rank")) {
    put_setting(settings, "peft", "lora");
    put_setting(settings, "lora_rank", std::to_string(*rank));
    const document::Node* targets = values.take("trainer.model.lora.target_modules");
    put_setting(
        settings, "lora_target_modules",
        targets == nullptr ? "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj" : document::to_text(*targets));
    static_cast<void>(values.take("trainer.model.lora.alpha"));
    static_cast<void>(values.take("trainer.model.lora.dropout"));
  }
  const auto sane = [](std::int64_t number) { return number > 0 && number < (1 << 20); };
  const auto integer = [&](std::string_view key) {
    const document::Node node = document::parse_scalar(setting(settings, key));
    return node.is_integer() && sane(node.integer) ? node.integer : 0;
  };
  const std::string type = values.take_word("deployment.type");
  const std::int64_t node = type == "multi_node" ? std::max<std::int64_t>(1, integer("gpus_per_node")) : 1;
  const std::int64_t train =
      values.take_integer(node > 1 || type == "multi_node" ? "deployment.num_train_nodes" : "deployment.num_train_gpus")
          .value_or(0);
  const std::int64_t infer =
      values.take_integer(node > 1 || type == "multi_node" ? "deployment.num_infer_nodes" : "deployment.num_infer_gpus")
          .value_or(0);
  if (sane(train)) put_setting(settings, "trainer_num_workers", std::to_string(train * node));
  if (sane(infer)) put_setting(settings, "inference_num_workers", std::to_string(infer * node));
  if (sane(train) && sane(infer)) put_setting(settings, "gpus", std::to_string((train + infer) * node));
  const std::int64_t group = std::max<std::int64_t>(1, integer("group_size"));
  const std::int64_t samples = values.take_integer("orchestrator.batch_size").value_or(0);
  if (samples > 0 && samples % group == 0)
    put_setting(settings, "prompts_batch_size_for_trainer", std::to_string(samples / group));
  static_cast<void>(values.take("orchestrator.seq_len"));
  const std::int64_t inflight = values.take_integer(kInflight).value_or(0);
  const std::int64_t tensor = std::max<std::int64_t>(1, integer("inference_tensor_parallel_size"));
  const std::int64_t servers = sane(infer) ? infer * node / tensor : 0;
  if (inflight > 0 && servers > 0 && inflight % (servers * group) == 0)
    put_setting(settings, "max_concurrent_prompts_per_server", std::to_string(inflight / servers / group));
  if (const std::string word = values.take_word(kChunk); !word.empty())
    put_setting(settings, "loss_chunk", word == "disabled" ? "0" : word);
  static_cast<void>(values.take("weight_broadcast.type"));
  take_trainer_names(values, kTrainer, settings);
  const bool recomputes = values.take("trainer.model.ac.freq") != nullptr;
  if (values.take("trainer.model.ac.mode") != nullptr || recomputes)
    put_setting(settings, "gradient_checkpointing", "true");
}

}  // namespace plimsoll::rl
