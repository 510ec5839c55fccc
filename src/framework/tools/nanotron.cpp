// SPDX-License-Identifier: Apache-2.0
// nanotron's YAML: a model in config.json's spelling, sizes of parallelism, tokens. Its layers are counted as those of
// Megatron core, whose tensor and pipeline parallelism it has.
#include <fmt/format.h>

#include "base/text.h"
#include "framework/tools/sections.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/value.h"
#include "model/hf_config.h"

namespace plimsoll::job {

using document::Node;

namespace {

const Node* at(const Node& root, std::string_view section, std::string_view key) {
  const Node* table = root.find(section);
  const Node* value = table == nullptr || !table->is_object() ? nullptr : table->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Status read_model(const Node& root, Draft& draft) {
  const Node* config = at(root, "model", "model_config");
  if (config == nullptr || !config->is_object()) return bad_input("model.model_config: wanted a table");
  if (const Node* experts = config->find("moe_config"); experts != nullptr && experts->is_object())
    return bad_input("model.model_config.moe_config: nanotron's experts are not modelled");
  Node hf = *config;
  const Node* is_qwen = config->find("is_qwen2_config");
  const Node* is_starcoder = config->find("is_starcoder2_config");
  const bool qwen = is_qwen != nullptr && !is_off(*is_qwen);
  if (is_starcoder != nullptr && !is_off(*is_starcoder))
    return bad_input("model.model_config: Starcoder's layers of nanotron are not modelled");
  if (!hf.has("model_type")) hf.members.emplace_back("model_type", text_node("llama"));
  // Its Qwen2 shape has biases only where attention_bias says so.
  static_cast<void>(qwen);
  PLIMSOLL_TRY(model, model::read_hf_config(hf));
  draft.model = std::move(model);
  draft.model.name = "model.model_config";
  return {};
}

}  // namespace

Result<Draft> read_nanotron_config(const InputFile& file, const ReadOptions& /*options*/) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kNanotron;
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  draft.read_as = "nanotron";
  PLIMSOLL_TRY(root, parse_json_or_yaml(file.text));
  if (!root.is_object()) return bad_input("wanted a table of sections");
  PLIMSOLL_TRY_STATUS(read_model(root, draft));
  const auto take = [&](std::string_view section, std::string_view key, std::string_view canonical) {
    if (const Node* value = at(root, section, key))
      draft.assign(std::string(canonical), *value, fmt::format("{}.{}", section, key));
  };
  take("parallelism", "tp", "tensor_model_parallel_size");
  take("parallelism", "pp", "pipeline_model_parallel_size");
  take("parallelism", "context_parallel_size", "context_parallel_size");
  take("parallelism", "expert_parallel_size", "expert_model_parallel_size");
  take("tokens", "sequence_length", "seq_length");
  take("tokens", "micro_batch_size", "micro_batch_size");
  take("tokens", "batch_accumulation_per_replica", "gradient_accumulation_steps");
  take("model", "make_vocab_size_divisible_by", "make_vocab_size_divisible_by");
  std::int64_t gpus = 1;
  bool known = true;
  for (const std::string_view key : {"dp", "tp", "pp", "context_parallel_size"}) {
    const Node* size = at(root, "parallelism", key);
    if (size == nullptr) {
      known = known && key == "context_parallel_size";
      continue;
    }
    const auto number = to_integer(*size, Range{1, 1 << 12});
    if (!number) return bad_input(fmt::format("parallelism.{}: {}", key, number.error().message));
    gpus *= *number;
  }
  if (known && gpus <= (1 << 24)) draft.assign("gpus", integer_node(gpus), "parallelism");
  const Node* mode = at(root, "parallelism", "tp_mode");
  const bool scatters = mode == nullptr || (mode->is_string() && lower(mode->text) == "reduce_scatter");
  draft.assign("sequence_parallel", bool_node(scatters), "parallelism.tp_mode");
  if (const Node* recompute = at(root, "parallelism", "recompute_layer"); recompute != nullptr && !is_off(*recompute)) {
    draft.assign("recompute_granularity", text_node("full"), "parallelism.recompute_layer");
    draft.assign("recompute_method", text_node("uniform"), "parallelism.recompute_layer");
    draft.assign("recompute_num_layers", integer_node(1), "parallelism.recompute_layer");
  }
  const Node* dtype = at(root, "model", "dtype");
  const std::string word = dtype != nullptr && dtype->is_string() ? lower(dtype->text) : "bfloat16";
  if (word == "bfloat16" || word == "bf16") {
    draft.assign("bf16", bool_node(true), "model.dtype");
  } else if (word == "float16" || word == "fp16") {
    draft.assign("fp16", bool_node(true), "model.dtype");
  } else if (word == "double" || word.find("8") != std::string::npos) {
    return bad_input(fmt::format("model.dtype: '{}' is not modelled", word));
  }
  if (const Node* fp32 = at(root, "optimizer", "accumulate_grad_in_fp32"); fp32 != nullptr)
    draft.assign("grad_reduce_in_fp32", *fp32, "optimizer.accumulate_grad_in_fp32");
  if (const Node* stage = at(root, "optimizer", "zero_stage"); stage != nullptr)
    draft.assign("use_distributed_optimizer", bool_node(!is_off(*stage)), "optimizer.zero_stage");
  draft.assign("gradient_accumulation_fusion", bool_node(false), "nanotron's default", true);
  keep_unread(root,
              "tp pp dp context_parallel_size expert_parallel_size sequence_length micro_batch_size zero_stage dtype "
              "batch_accumulation_per_replica accumulate_grad_in_fp32 recompute_layer tp_mode pp_engine pretraining_tp "
              "tp_linear_async_communication tp_recompute_allgather make_vocab_size_divisible_by",
              "lighteval data_stages general checkpoints logging tokenizer profiler s3_upload metrics_logging", draft);
  draft.warnings.emplace_back("nanotron: its layers are counted as those of Megatron-LM");
  return draft;
}

bool is_nanotron(const Node& root) {
  const Node* model = root.find("model");
  const Node* parallelism = root.find("parallelism");
  const bool has_sections = has_any(root, {"parallelism", "tokens", "general", "checkpoints"});
  return (has_sections && is_table(model) && is_table(model->find("model_config"))) ||
         (is_table(parallelism) && parallelism->has("dp") && parallelism->has("tp"));
}

}  // namespace plimsoll::job
