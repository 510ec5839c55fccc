// SPDX-License-Identifier: Apache-2.0
// The YAML that `accelerate config` writes: how many processes, which precision, FSDP or DeepSpeed.
#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "framework/transformers/include.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

Status read_precision(const Node& value, Draft& draft) {
  PLIMSOLL_TRY(word, to_word(value));
  const std::string name = lower(word);
  if (name == "no" || name == "none" || name == "false") return {};
  if (name == "bf16" || name == "fp16") {
    draft.assign(name, bool_node(true), "mixed_precision");
  } else if (name == "fp8") {
    draft.assign("bf16", bool_node(true), "mixed_precision");
    draft.warnings.emplace_back(
        "mixed_precision fp8: counted as bf16; FP8 copies of accelerate's backends are not counted");
  } else {
    return bad_input(fmt::format("mixed_precision: found {}, wanted no, fp16, bf16 or fp8", shown(value)));
  }
  return {};
}

// The DeepSpeed plugin: a file of its own, or a few keys, but not both (facts other-frameworks-memory.md 5.5).
Status read_plugin(const Node& table, Draft& draft) {
  if (!table.is_object()) return bad_input("deepspeed_config: wanted a table");
  const Node* file = table.find("deepspeed_config_file");
  const bool has_file = file != nullptr && file->is_string() && !is_off(*file);
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
      {"zero_stage", "zero_stage"},
      {"offload_optimizer_device", "offload_optimizer_device"},
      {"offload_param_device", "offload_param_device"},
      {"gradient_accumulation_steps", "gradient_accumulation_steps"},
      {"gradient_clipping", "clip_grad"},
  };
  for (const auto& [key, canonical] : kKeys) {
    const Node* value = table.find(key);
    if (value == nullptr || value->is_null()) continue;
    if (has_file)
      return bad_input(
          fmt::format("deepspeed_config.{} and deepspeed_config_file: the following accelerate config variables "
                      "will be ignored",
                      key),
          "keep the file or the keys");
    if (value->is_string() && value->text == "auto") continue;
    draft.assign(std::string(canonical), *value, fmt::format("deepspeed_config.{}", key));
  }
  if (!has_file) return {};
  PLIMSOLL_TRY(part, include_deepspeed_file(file->text, parent_folder(draft.path)));
  draft.parts.push_back(std::move(part));
  return {};
}

Status read_type(const Node& root, Draft& draft) {
  const Node* type = root.find("distributed_type");
  std::string name = "no";
  if (type != nullptr && !type->is_bool() && !type->is_null()) {
    PLIMSOLL_TRY(word, to_word(*type));
    name = lower(word);
  }
  if (name == "fsdp") {
    draft.framework = Framework::kFsdp2;
    const Node* config = root.find("fsdp_config");
    return read_fsdp_config(config != nullptr && config->is_object() ? *config : Node{}, FsdpOptions{1, false}, draft);
  }
  if (name == "deepspeed") {
    draft.framework = Framework::kDeepSpeed;
    const Node* config = root.find("deepspeed_config");
    return config == nullptr || config->is_null() ? Status{} : read_plugin(*config, draft);
  }
  const bool is_other_device = name.starts_with("multi_") && name != "multi_gpu" && name != "multi_cpu";
  if (is_other_device)
    draft.warnings.push_back(fmt::format("distributed_type: {}: counted as on NVIDIA's GPUs (MULTI_GPU)", name));
  if (name == "no" || name == "multi_gpu" || is_other_device) {
    draft.framework = Framework::kTransformers;
    return {};
  }
  return bad_input(fmt::format("distributed_type '{}' is not modelled; wanted NO, MULTI_GPU, FSDP or DEEPSPEED", name));
}

}  // namespace

Result<Draft> read_accelerate_config(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kAccelerateConfig;
  draft.vocabulary = Framework::kTransformers;
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  if (!root.is_object()) return bad_input("wanted a table of accelerate keys");
  PLIMSOLL_TRY_STATUS(read_type(root, draft));
  for (const auto& [key, value] : root.members) {
    if (key == "distributed_type" || key == "fsdp_config" || key == "deepspeed_config" || value.is_null()) continue;
    constexpr std::string_view kParallelism = "parallelism_config_";
    // "num_processes: gpu": as many as there are, which whoever asks knows.
    if (key == "num_processes" && value.is_string() && (value.text == "gpu" || value.text == "auto")) continue;
    // Only accelerate's launcher of single processes hands it on (accelerate 1.x, commands/launch.py).
    if (key == "use_cpu" && !is_off(value) && draft.framework != Framework::kTransformers) {
      draft.notes.push_back(fmt::format("{}: use_cpu has no effect under DeepSpeed and FSDP", draft.path));
      continue;
    }
    if (key == "mixed_precision") {
      PLIMSOLL_TRY_STATUS(read_precision(value, draft));
    } else if (key == "parallelism_config" || key == "dynamo_config") {
      if (!value.is_object()) continue;
      for (const auto& [inner, item] : value.members) {
        const bool is_size = inner.substr(0, kParallelism.size()) == kParallelism;
        if (key == "parallelism_config") draft.assign(is_size ? inner.substr(kParallelism.size()) : inner, item, inner);
        if (inner == "dynamo_backend" && item.is_string() && lower(item.text) != "no")
          draft.assign("torch_compile", bool_node(true), "dynamo_config.dynamo_backend");
      }
    } else if (key == "fp8_config" || key == "megatron_lm_config" || key == "sagemaker_config") {
      if (!is_off(value)) draft.warnings.push_back(fmt::format("{}: is not read", key));
    } else {
      draft.assign(key, value);
    }
  }
  const Node* machines = root.find("num_machines");
  const Node* processes = root.find("num_processes");
  if (machines != nullptr && processes != nullptr && machines->is_integer() && processes->is_integer() &&
      machines->integer > 0 && processes->integer > 0 && processes->integer % machines->integer == 0)
    draft.assign("gpus_per_node", integer_node(processes->integer / machines->integer), "num_machines", true);
  return draft;
}

bool is_accelerate(const Node& root) {
  return has_any(root, {"distributed_type", "compute_environment", "num_machines", "deepspeed_config"}) ||
         (root.has("num_processes") && has_any(root, {"mixed_precision", "fsdp_config"}));
}

}  // namespace plimsoll::job
