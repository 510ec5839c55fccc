// SPDX-License-Identifier: Apache-2.0
// InternEvo (names and defaults from its configs and internlm/model/modules/mlp.py): decoders with Megatron's tensor
// and pipeline parallelism and a sharded optimizer, read as a job of Megatron-LM's layers. Its own way to split
// weights (isp with weight parallelism) is refused.
#include "framework/tools/internevo.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/tools/sections.h"
#include "job/format.h"
#include "job/keys.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr std::int64_t kWidthMultiple = 256;  // multiple_of of its MLP

const Node* at(const Node& root, std::string_view section, std::string_view key) {
  const Node* table = root.find(section);
  const Node* found = is_table(table) ? table->find(key) : nullptr;
  return found == nullptr || found->is_null() ? nullptr : found;
}

// parallel.tensor is a number or {size, mode}.
std::int64_t size_of(const Node& root, std::string_view kind, std::int64_t otherwise) {
  const Node* value = at(root, "parallel", kind);
  if (value != nullptr && value->is_object()) value = value->find("size");
  if (value == nullptr) return otherwise;
  const auto size = to_integer(*value, Range{-1, 1 << 20});
  return size ? *size : otherwise;
}

Status read_parallel(const Node& root, Draft& draft) {
  const Node* tensor = at(root, "parallel", "tensor");
  const Node* named = tensor != nullptr && tensor->is_object() ? tensor->find("mode") : nullptr;
  const std::string mode = named != nullptr && named->is_string() ? lower(named->text) : "mtp";
  if (mode == "isp" || size_of(root, "weight", 1) > 1)
    return bad_input(
        "parallel.tensor.mode: isp splits sequences and gathers weights that InternEvo shards by a size of their own, "
        "which is not modelled");
  const Node* zero = at(root, "parallel", "zero1");
  if (zero != nullptr && zero->is_object() && zero->has("fsdp") && !is_off(*zero->find("fsdp")))
    return bad_input("parallel.zero1.fsdp: PyTorch's FSDP under InternEvo is not modelled");
  const std::int64_t split = size_of(root, "tensor", 1);
  draft.assign("tensor_model_parallel_size", integer_node(split), "parallel.tensor.size");
  const Node* sequence = at(root, "parallel", "sequence_parallel");
  const bool splits_sequence = mode == "msp" || mode == "fsp" || (sequence != nullptr && !is_off(*sequence));
  if (splits_sequence && split > 1) draft.assign("sequence_parallel", bool_node(true), "parallel.tensor.mode");
  draft.assign("pipeline_model_parallel_size", integer_node(size_of(root, "pipeline", 1)), "parallel.pipeline.size");
  const std::int64_t shards = size_of(root, "zero1", -1);  // 0 and below: all data-parallel ranks
  draft.assign("use_distributed_optimizer", bool_node(shards != 1), "parallel.zero1.size");
  if (shards > 1)
    draft.warnings.push_back(fmt::format(
        "parallel.zero1.size: optimizer states are counted as sharded over all data-parallel ranks, not over {}",
        shards));
  const Node* chunks = at(root, "model", "num_chunks");
  if (chunks != nullptr && size_of(root, "pipeline", 1) > 1 && document::to_text(*chunks) != "1")
    return bad_input("model.num_chunks: interleaved pipelines of InternEvo are not modelled");
  return {};
}

Status read_model(const Node& root, Draft& draft) {
  constexpr std::pair<std::string_view, std::string_view> kSame[] = {{"num_layers", "num_layers"},
                                                                     {"hidden_size", "hidden_size"},
                                                                     {"num_attention_heads", "num_attention_heads"},
                                                                     {"vocab_size", "vocab_size"}};
  for (const auto& [name, key] : kSame) {
    const Node* value = at(root, "model", name);
    if (value == nullptr) return bad_input(fmt::format("model.{}: is not given", name));
    draft.assign(std::string(key), *value, fmt::format("model.{}", name));
  }
  if (const Node* experts = at(root, "model", "num_experts"); experts != nullptr && document::to_text(*experts) != "1")
    return bad_input("model.num_experts: experts of InternEvo are not modelled");
  const auto hidden = to_integer(*at(root, "model", "hidden_size"), Range{1, 1 << 20});
  const Node* ratio = at(root, "model", "mlp_ratio");
  const auto times = ratio == nullptr ? Result<double>(4.0) : to_real(*ratio, Range{0.01, 1024});
  if (!hidden || !times) return bad_input("model.mlp_ratio: wanted a number, beside a whole model.hidden_size");
  const auto width = static_cast<std::int64_t>(static_cast<double>(*hidden) * *times);
  draft.assign("ffn_hidden_size", integer_node((width + kWidthMultiple - 1) / kWidthMultiple * kWidthMultiple),
               "model.mlp_ratio");
  draft.assign("swiglu", bool_node(true), "model");
  draft.assign("untie_embeddings_and_output_weights", bool_node(true), "model");
  draft.assign("position_embedding_type", text_node("rope"), "model");
  draft.assign("add_bias_linear", bool_node(false), "model");
  const Node* norm = at(root, "model", "norm_type");
  const bool is_rms = norm == nullptr || lower(document::to_text(*norm)).find("rms") != std::string::npos;
  draft.assign("normalization", text_node(is_rms ? "RMSNorm" : "LayerNorm"), "model.norm_type");
  if (const Node* groups = at(root, "model", "num_kv_attention_heads")) {
    draft.assign("group_query_attention", bool_node(true), "model.num_kv_attention_heads");
    draft.assign("num_query_groups", *groups, "model.num_kv_attention_heads");
  }
  const Node* dtype = at(root, "model", "dtype");
  const std::string word = dtype == nullptr ? "" : lower(document::to_text(*dtype));
  if (word.find("bfloat16") != std::string::npos) draft.assign("bf16", bool_node(true), "model.dtype");
  if (word.find("float16") != std::string::npos && word.find("bfloat16") == std::string::npos)
    draft.assign("fp16", bool_node(true), "model.dtype");
  return {};
}

// model.checkpoint: whether, or which share of the layers, is recomputed.
Status read_recompute(const Node& root, Draft& draft) {
  const Node* value = at(root, "model", "checkpoint");
  if (value == nullptr || is_off(*value)) return {};
  const auto share = value->is_bool() ? Result<double>(1.0) : to_real(*value, Range{0, 1});
  if (!share) return bad_input("model.checkpoint: wanted true, false or a share of the layers from 0 to 1");
  const auto layers = to_integer(*at(root, "model", "num_layers"), Range{1, 1 << 14});
  if (!layers) return {};
  const std::int64_t stages = std::max<std::int64_t>(size_of(root, "pipeline", 1), 1);
  draft.assign("recompute_granularity", text_node("full"), "model.checkpoint");
  draft.assign("recompute_method", text_node(*share >= 1 ? "uniform" : "block"), "model.checkpoint");
  const std::int64_t of_stage = *layers / stages;
  const auto some = static_cast<std::int64_t>(std::floor(*share * static_cast<double>(of_stage)));
  draft.assign("recompute_num_layers", integer_node(*share >= 1 ? 1 : std::max<std::int64_t>(some, 1)),
               "model.checkpoint");
  return {};
}

}  // namespace

bool is_internevo(const Node& root) {
  return at(root, "data", "micro_bsz") != nullptr && is_table(root.find("model")) && is_table(root.find("parallel"));
}

Result<Draft> read_internevo(const Node& root, const std::string& path) {
  Draft draft;
  draft.path = path;
  draft.kind = FileKind::kMegatronArgs;
  draft.vocabulary = Framework::kMegatronLm;
  draft.framework = Framework::kMegatronLm;
  draft.read_as = "InternEvo";
  PLIMSOLL_TRY_STATUS(read_parallel(root, draft));
  PLIMSOLL_TRY_STATUS(read_model(root, draft));
  PLIMSOLL_TRY_STATUS(read_recompute(root, draft));
  if (const Node* length = at(root, "data", "seq_len")) draft.assign("seq_length", *length, "data.seq_len");
  draft.assign("micro_batch_size", *at(root, "data", "micro_bsz"), "data.micro_bsz");
  if (const Node* steps = at(root, "data", "micro_num"))
    draft.assign("gradient_accumulation_steps", *steps, "data.micro_num");
  // Gradients are of the weights' type, from the first micro-batch to the last.
  draft.assign("accumulate_allreduce_grads_in_fp32", bool_node(false), "hybrid_zero_optimizer");
  Node rest;
  rest.kind = Node::Kind::kObject;
  for (const char* section : {"data", "model"}) rest.members.emplace_back(section, *root.find(section));
  keep_unread(rest,
              "seq_len micro_bsz micro_num num_layers hidden_size num_attention_heads vocab_size mlp_ratio dtype "
              "checkpoint num_kv_attention_heads num_chunks sequence_parallel mode size packed_length use_flash_attn "
              "embed_split_hidden parallel_output num_experts rampup_batch_size valid_micro_num use_packed_dataset "
              "embed_grad_scale",
              "", draft);
  draft.notes.push_back(fmt::format("{}: counted with Megatron-LM's layers, InternEvo's own are not modelled", path));
  return draft;
}

}  // namespace plimsoll::job
