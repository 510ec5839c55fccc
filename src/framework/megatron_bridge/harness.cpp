// SPDX-License-Identifier: Apache-2.0
// The performance harness of Megatron-Bridge (scripts/performance/run_script.py and setup_experiment.py): a model by
// the start of its recipes' names, and sizes as flags. Its flags and what each sets: argument_parser.py and
// utils/overrides.py there.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/result.h"
#include "base/text.h"
#include "framework/megatron_bridge/bridge.h"
#include "framework/transformers/include.h"
#include "job/readers/launch.h"
#include "job/readers/omega.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

// Those that decide something; the others are of the cluster, the profiler or the log.
constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kShort{{
    {"-m", "--model_family_name"},
    {"-mr", "--model_recipe_name"},
    {"-g", "--gpu"},
    {"-ng", "--num_gpus"},
    {"-gn", "--gpus_per_node"},
    {"-c", "--compute_dtype"},
    {"-gb", "--global_batch_size"},
    {"-mb", "--micro_batch_size"},
    {"-sl", "--seq_length"},
    {"-tp", "--tensor_model_parallel_size"},
    {"-pp", "--pipeline_model_parallel_size"},
    {"-cp", "--context_parallel_size"},
    {"-vp", "--virtual_pipeline_model_parallel_size"},
    {"-ep", "--expert_model_parallel_size"},
    {"-et", "--expert_tensor_parallel_size"},
    {"-rl", "--recompute_num_layers"},
    {"-ol", "--activation_offload_layers"},
}};

// Of the cluster, the profiler, the log or the data, which change no byte of a step; what they take goes with them.
constexpr std::array kOther{
    "--model_family_name",
    "--model_recipe_name",
    "--config_variant",
    "--list_config_variants",
    "--max_steps",
    "--max_step",
    "--task",
    "--domain",
    "--data",
    "--hf_token",
    "--account",
    "--partition",
    "--time_limit",
    "--container_image",
    "--custom_mounts",
    "--custom_env_vars",
    "--custom_srun_args",
    "--log_dir",
    "--enable_vboost",
    "--enable_nsys",
    "--dryrun",
    "--offline",
    "--detach",
    "--use_recipes",
    "--max_retries",
    "--tokenizer_type",
    "--tokenizer_model",
    "--nemo_home",
    "--vocab_size",
    "--lock_gpu_freq",
};

bool is_short_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' &&
         ((word[1] >= 'a' && word[1] <= 'z') || (word[1] >= 'A' && word[1] <= 'Z'));
}

// The same words with long flags. A short one that decides nothing is dropped with what it takes.
std::vector<ShellWord> in_long_flags(const std::vector<ShellWord>& words) {
  std::vector<ShellWord> all;
  bool is_dropped = false;
  for (const ShellWord& word : words) {
    if (is_flag(word.text)) {
      is_dropped = false;
    } else if (is_short_flag(word.text)) {
      const std::string_view bare = std::string_view(word.text).substr(0, word.text.find('='));
      const auto* const row =
          std::find_if(kShort.begin(), kShort.end(), [bare](const auto& pair) { return pair.first == bare; });
      is_dropped = row == kShort.end();
      if (!is_dropped) {
        ShellWord flag = word;
        flag.text = std::string(row->second) + word.text.substr(bare.size());
        all.push_back(std::move(flag));
        continue;
      }
    }
    if (!is_dropped) all.push_back(word);
  }
  return all;
}

const LaunchFlag* find(const LaunchFlags& flags, std::string_view written) {
  const LaunchFlag* last = nullptr;
  for (const LaunchFlag& flag : flags.flags)
    if (flag.written == written && !flag.values.empty()) last = &flag;
  return last;
}

std::string value_of(const LaunchFlags& flags, std::string_view written) {
  const LaunchFlag* const flag = find(flags, written);
  return flag == nullptr ? std::string{} : flag->values.front().text;
}

// What a flag sets beside its own key (utils/overrides.py).
void set_beside(const LaunchFlag& flag, Draft& draft) {
  const auto set = [&](std::string key, Node value) { draft.assign(std::move(key), std::move(value), flag.written); };
  const std::string& value = flag.values.front().text;
  if (flag.written == "--tensor_model_parallel_size") {
    if (value != "1" && flag.values.front().unknown.empty()) set("sequence_parallel", bool_node(true));
    if (value == "1") set("sequence_parallel", bool_node(false));
  } else if (flag.written == "--recompute_modules") {
    set("recompute_granularity", text_node("selective"));
  } else if (flag.written == "--recompute_num_layers") {
    set("recompute_granularity", text_node("full"));
    set("recompute_method", text_node("block"));
  } else if (flag.written == "--activation_offload_layers") {
    set("cpu_offloading", bool_node(true));
  } else if (flag.written == "--moe_flex_dispatcher_backend") {
    set("moe_token_dispatcher_type", text_node(value == "None" ? "alltoall" : "flex"));
  } else if (flag.written == "--use_megatron_fsdp" && lower(value) == "true") {
    set("data_parallel_sharding_strategy", text_node("optim_grads_params"));
    set("init_model_with_meta_device", bool_node(true));
    set("gradient_accumulation_fusion", bool_node(true));
  }
}

}  // namespace

bool names_bridge_harness(const std::vector<ShellWord>& words) {
  bool has_family = false;
  bool has_recipe = false;
  for (const ShellWord& word : words) {
    const std::string_view bare = std::string_view(word.text).substr(0, word.text.find('='));
    if (bare == "--model_recipe_name") return true;
    has_family = has_family || bare == "-m" || bare == "--model_family_name";
    has_recipe = has_recipe || bare == "-mr";
  }
  return has_family && has_recipe;
}

Status read_harness_command(const std::vector<ShellWord>& words, Draft& draft) {
  const LaunchFlags flags = read_flags(in_long_flags(words), [](const std::string&) { return false; });
  const std::string model = lower(value_of(flags, "--model_recipe_name"));
  if (model.empty()) return bad_input("--model_recipe_name: its value needs a variable that the script does not set");
  const std::string asked_task = value_of(flags, "--task");
  const std::string task = asked_task == "lora" ? "peft" : asked_task.empty() ? "pretrain" : asked_task;
  const std::string precision = value_of(flags, "--compute_dtype");
  HarnessWorkload asked{model, task, 0, lower(value_of(flags, "--gpu")), precision.empty() ? "bf16" : lower(precision)};
  std::erase(asked.precision, '_');
  if (const Node gpus = document::parse_scalar(value_of(flags, "--num_gpus")); gpus.is_integer())
    asked.gpus = gpus.integer;
  PLIMSOLL_TRY(own, bridge_harness_recipe(asked, draft));
  const bool is_own = own.has_value();
  Node root;
  root.kind = Node::Kind::kObject;
  if (is_own) {
    root = *std::move(own);
  } else {
    const std::string recipe = shortest_bridge_recipe(fmt::format("{}_{}_", model, task));
    if (recipe.empty()) {
      PLIMSOLL_TRY_STATUS(name_model(replace(model, '_', '-'), draft));
      put_path(root, "ddp.use_distributed_optimizer", bool_node(true));
    } else {
      PLIMSOLL_TRY(found, bridge_recipe(recipe, draft));
      root = std::move(found);
    }
    draft.warnings.push_back(fmt::format(
        "{}: the harness's own recipe for {} ({}, {}, {}) is not known: sizes, recomputation, CUDA graphs and overlap "
        "are those of the flags{}",
        draft.path, model, task, asked.gpu.empty() ? "no GPU" : asked.gpu, asked.precision,
        recipe.empty() ? "" : " and of the recipe above"));
  }
  PLIMSOLL_TRY_STATUS(read_bridge_tree(root, draft));
  if (!is_own && precision.empty()) draft.assign("recipe", text_node("bf16"), "the harness's own precision", true);
  if (asked.precision == "bf16") draft.assign("use_precision_aware_optimizer", bool_node(true), "the harness, in bf16");
  for (const LaunchFlag& flag : flags.flags) {
    if (flag.values.empty() || std::find(kOther.begin(), kOther.end(), flag.written) != kOther.end()) continue;
    std::string key = key_of_flag(flag.written);
    if (key == "num_gpus") key = "gpus";
    if (key == "compute_dtype") {
      if (is_own) continue;  // the recipe's own
      key = "recipe";
    }
    if (key == "activation_offload_layers") key = "cpu_offloading_num_layers";
    if (key == "moe_a2a_overlap") key = "overlap_moe_expert_parallel_comm";
    // The harness says transformer_engine or local; which layers it captures is in its table.
    if (key == "cuda_graph_impl" || key == "cuda_graph_scope") continue;
    set_beside(flag, draft);
    if (key == "moe_flex_dispatcher_backend" && flag.values.front().text == "None") continue;  // alltoall
    const ShellWord& word = flag.values.front();
    draft.assign(key, document::parse_scalar(word.text), flag.written);
    if (!word.unknown.empty())
      draft.assignments.back().problem =
          fmt::format("its value needs {}, which the script does not set", word.unknown.front());
  }
  return {};
}

}  // namespace plimsoll::job
