// SPDX-License-Identifier: Apache-2.0
// GRPO of TRL (trainer/grpo_config.py) and of tools that take its arguments.
#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "job/keys.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"
#include "rl/frameworks/settings.h"
#include "rl/frameworks/tool_values.h"
#include "rl/frameworks/unread.h"

namespace plimsoll::rl {

namespace {

// Keys that speak of what is counted and do not change it: a type of 16 bits is one, whichever; servers and data.
constexpr std::string_view kPassed[] = {"bf16",
                                        "fp16",
                                        "torch_dtype",
                                        "dtype",
                                        "tf32",
                                        "per_device",
                                        "lora_",
                                        "use_dora",
                                        "peft_",
                                        "gradient_checkpointing_kwargs",
                                        "dataset",
                                        "freeze",
                                        "ddp",
                                        "bnb_4bit",
                                        "max_steps",
                                        "attn",
                                        "eval",
                                        "logging",
                                        "save",
                                        "vllm",
                                        "fsdp",
                                        "deepspeed",
                                        "padding_free",
                                        "offload_model",
                                        "offload_optimizer",
                                        "sleep_level",
                                        "num_iterations",
                                        "steps_per_generation",
                                        "generation_batch_size",
                                        "teacher",
                                        "reward",
                                        "ds3_gather_for_generation",
                                        "move_model_batches",
                                        "max_pixels",
                                        "min_pixels",
                                        "model",
                                        "target_modules",
                                        "lora_target_modules",
                                        "modules_to_save",
                                        "max_seq_length",
                                        "bits"};

// "training_config: {per_device_train_batch_size: 8}": arguments in a table of the trainer are the arguments.
void lift_tables(Values& values) {
  for (const std::string& path : values.left_over()) {
    const std::size_t dot = path.rfind('.');
    if (dot == std::string::npos || path.find('.') != dot) continue;
    const std::string table = lower(path.substr(0, dot));
    const bool is_trainers = table.starts_with("train") || table.starts_with("grpo");
    if (!is_trainers || values.has(path.substr(dot + 1))) continue;
    if (const document::Node* value = values.take(path); value != nullptr) {
      const document::Node copy = *value;
      values.put(path.substr(dot + 1), copy);
    }
  }
}

// "zero3_offload.json" says its stage, as "ds_z2.json" does; 0 where no digit stands behind such a word.
char stage_in_name(std::string_view file) {
  const std::string name = lower(file.substr(file.rfind('/') == std::string_view::npos ? 0 : file.rfind('/') + 1));
  for (const std::string_view word : {"zero", "zero_", "zero-", "stage", "stage_", "stage-", "z"})
    for (const char digit : {'0', '1', '2', '3'})
      if (name.find(std::string(word) + digit) != std::string::npos) return digit;
  return 0;
}

// Trainer shards through a file of accelerate or DeepSpeed: what it says where it is here, what its name says, or
// stage 3, which is told.
void take_sharding(Values& values, const std::string& path, ConfigSettings& result) {
  Settings& settings = result.settings;
  const std::string engine = values.take_word("deepspeed");
  const std::string backend = values.take_word("train_backend");
  std::string stage = values.take_word("zero_stage");
  if (!engine.empty() && engine != "null" && engine != "true") {
    const auto found = job::locate(engine, parent_folder(path));
    const auto text = found ? job::read_named_file(*found) : Result<std::string>(bad_input("none"));
    const auto root = text ? job::parse_json_or_yaml(*text) : Result<document::Node>(bad_input("none"));
    const document::Node* zero = root && root->is_object() ? root->find("zero_optimization") : nullptr;
    const document::Node* written = zero != nullptr && zero->is_object() ? zero->find("stage") : nullptr;
    const char digit = stage_in_name(engine);
    if (written != nullptr && written->is_integer()) {
      stage = std::to_string(written->integer);
    } else if (digit != 0) {
      stage = std::string(1, digit);
    }
    for (const char* part : {"offload_optimizer", "offload_param"}) {
      const document::Node* table = zero != nullptr && zero->is_object() ? zero->find(part) : nullptr;
      const document::Node* device = table != nullptr && table->is_object() ? table->find("device") : nullptr;
      if (device != nullptr && device->is_string() && device->text != "none")
        put_setting(settings, fmt::format("{}_device", part), device->text);
    }
  }
  if (stage.empty() && backend == "fsdp") {
    put_setting(settings, "trainer_framework", "fsdp2");
    return;
  }
  const bool is_whole = stage.empty() && backend == "multi_gpu";
  const bool is_known = is_whole || (stage.size() == 1 && stage[0] >= '0' && stage[0] <= '3');
  put_setting(settings, "trainer_framework", "deepspeed");
  put_setting(settings, "zero_stage", is_whole ? "0" : is_known ? stage : "3");
  if (is_whole) result.assumed.emplace_back("zero_stage: every GPU has the whole trainer, as accelerate's file says");
  if (!is_known)
    result.assumed.emplace_back(
        "zero_stage: how the trainer shards is in another file; DeepSpeed's stage 3 is assumed");
}

}  // namespace

Result<ConfigSettings> read_trl(const std::string& path, std::string_view text, const Settings& given) {
  constexpr std::string_view kWanted[] = {
      "num_generations", "max_completion_length", "per_device_train_batch_size", "use_vllm",
      "rlhf_type",       "reward_funcs"};
  Result<Values> read =
      is_yaml(text) ? parse_tree(job::parse_json_or_yaml(text)) : flags_of_script(text, path, kWanted);
  if (!read) return tl::make_unexpected(std::move(read.error()));
  Values& values = *read;
  lift_tables(values);
  ConfigSettings result;
  Settings& settings = result.settings;
  // A model that the script does not set is asked for by its flag.
  std::string name;
  for (const char* key : {"model_name_or_path", "model", "model_name"})
    if (name.empty() && values.unknown().find(key) == values.unknown().end()) name = values.take_word(key);
  take_model(name, settings);
  constexpr Row kRows[] = {{"num_generations", "group_size"},
                           {"max_completion_length", "max_tokens"},
                           {"max_prompt_length", "prompt_max"},
                           {"max_length", "prompt_max"},
                           {"gradient_checkpointing", "gradient_checkpointing"},
                           {"vllm_gpu_memory_utilization", "gpu_memory_utilization"},
                           {"vllm_tensor_parallel_size", "inference_tensor_parallel_size"},
                           {"vllm_max_model_len", "max_model_len"},
                           {"vllm_max_model_length", "max_model_len"}};
  take_rows(kRows, values, settings);
  if (const std::string_view open = setting(settings, "group_size"); open.find("${") != std::string_view::npos)
    return bad_input(fmt::format("num_generations: {} is filled in by another file", open),
                     "give the file that holds the whole configuration");
  if (setting(settings, "group_size").empty()) put_setting(settings, "group_size", "8");  // GRPOConfig's
  if (setting(settings, "max_tokens").empty()) put_setting(settings, "max_tokens", "256");
  if (setting(settings, "prompt_max").empty()) put_setting(settings, "prompt_max", "512");
  take_sharding(values, path, result);
  const std::string tuning = values.take_word("tuner_type") + values.take_word("train_type");
  const bool has_adapter = tuning == "lora" || values.take_flag("use_peft").value_or(false);
  if (has_adapter) {
    put_setting(settings, "peft", "lora");
    std::string rank = values.take_word("lora_rank");
    if (rank.empty()) rank = values.take_word("lora_r");
    if (!rank.empty()) put_setting(settings, "lora_rank", rank);
    std::string targets = values.take_word("target_modules");
    if (targets.empty()) targets = values.take_word("lora_target_modules");
    put_setting(settings, "lora_target_modules", targets.empty() ? "all-linear" : targets);
    if (const std::string dropout = values.take_word("lora_dropout"); !dropout.empty())
      put_setting(settings, "lora_dropout", dropout);
    const bool is_quantized = values.take_flag("load_in_4bit").value_or(false) || values.take_word("quant_bits") == "4";
    if (is_quantized) put_setting(settings, "load_in_4bit", "true");
  }
  if (!values.take_flag("use_vllm").value_or(values.has("vllm_mode") || values.has("vllm_gpu_memory_utilization")))
    result.assumed.emplace_back(
        "use_vllm: off: Transformers generates inside the trainer, slower and without a pool of its own; servers of "
        "vLLM "
        "are counted");
  const std::int64_t launched = take_count(values, "launched_gpus", 0);
  const std::int64_t gpus = integer(given, "gpus") > 0 ? integer(given, "gpus") : launched;
  if (gpus == 0) return bad_input("the number of GPUs is not known", "give --gpus");
  const std::int64_t micro = take_count(values, "per_device_train_batch_size", 8);
  std::int64_t accumulation = take_count(values, "gradient_accumulation_steps", 0);
  if (accumulation == 0) accumulation = take_count(values, "grad_accum_steps", 1);
  const bool serves_apart = values.take_word("vllm_mode") == "server" && !values.has("vllm_colocate");
  const std::int64_t servers =
      serves_apart ? std::max<std::int64_t>(1, integer(settings, "inference_tensor_parallel_size")) : gpus;
  const std::int64_t trainers = serves_apart ? gpus - servers : gpus;
  if (trainers < 1) return bad_input("the servers take every GPU", "give more --gpus");
  put_setting(settings, "placement", serves_apart ? "disaggregated" : "colocated");
  put_setting(settings, "mode", "sync");
  if (integer(given, "gpus") == 0) put_setting(settings, "gpus", std::to_string(gpus));
  put_setting(settings, "trainer_num_workers", std::to_string(trainers));
  put_setting(settings, "inference_num_workers", std::to_string(servers));
  const std::int64_t samples = micro * trainers * accumulation;
  put_setting(
      settings, "prompts_batch_size_for_trainer",
      std::to_string(std::max<std::int64_t>(1, samples / std::max<std::int64_t>(1, integer(settings, "group_size")))));
  put_setting(settings, "seq_len",
              std::to_string(micro * (integer(settings, "prompt_max") + integer(settings, "max_tokens"))));
  const std::string beta = values.take_word("beta");
  put_setting(settings, "reference_pass",
              beta.empty() || beta == "0" || beta == "0.0" || has_adapter ? "false" : "true");
  for (const std::string& left : values.left_over()) {
    const document::Node* on = left.starts_with("freeze") ? values.look(left) : nullptr;
    if (on == nullptr || job::is_off(*on)) continue;
    const bool is_tower = left.find("vision") != std::string::npos || left.find("vit") != std::string::npos;
    if (!is_tower) return bad_input(fmt::format("{}: training of a part of the model is not modelled", left));
    put_setting(settings, "freeze_vision_tower", "true");
  }
  PLIMSOLL_TRY_STATUS(check_unread_of_tool(values, kPassed, result.ignored));
  result.assumed.push_back(fmt::format("{}: read as GRPO of TRL", path));
  return result;
}

}  // namespace plimsoll::rl
