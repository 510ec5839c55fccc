// SPDX-License-Identifier: Apache-2.0
// Recorded Megatron ranks: one real rank over a fake process group, local layer implementation.
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "model/limits.h"
#include "truth/fields.h"
#include "truth/record.h"

namespace plimsoll::truth {

using document::Node;

namespace {

constexpr Field kFields[] = {
    {"id", Want::kText},
    {"implementation", Want::kText},
    {"gpu", Want::kText, true},
    {"allocator", Want::kText},
    {"host_speed", Want::kNumber},
    {"world_size", Want::kInteger, true},
    {"model", Want::kTable, true},
    {"model.layers", Want::kInteger, true},
    {"model.hidden", Want::kInteger, true},
    {"model.heads", Want::kInteger, true},
    {"model.vocab", Want::kInteger, true},
    {"model.ffn", Want::kInteger},
    {"model.kv_heads", Want::kInteger},
    {"model.head_dim", Want::kInteger},
    {"model.tied_embeddings", Want::kFlag},
    {"model.experts", Want::kInteger},
    {"model.topk", Want::kInteger},
    {"model.moe_ffn", Want::kInteger},
    {"parallel", Want::kTable, true},
    {"parallel.tp", Want::kInteger, true},
    {"parallel.pp", Want::kInteger, true},
    {"parallel.dp", Want::kInteger, true},
    {"parallel.vpp", Want::kInteger},
    {"parallel.cp", Want::kInteger},
    {"parallel.ep", Want::kInteger},
    {"parallel.sequence_parallel", Want::kFlag},
    {"parallel.account_for_embedding_in_pipeline_split", Want::kFlag},
    {"parallel.account_for_loss_in_pipeline_split", Want::kFlag},
    {"train", Want::kTable, true},
    {"train.seq", Want::kInteger, true},
    {"train.micro_batch", Want::kInteger, true},
    {"train.num_microbatches", Want::kInteger, true},
    {"train.distributed_optimizer", Want::kFlag},
    {"train.grad_reduce_in_fp32", Want::kFlag},
    {"train.overlap_grad_reduce", Want::kFlag},
    {"train.cross_entropy_loss_fusion", Want::kFlag},
    {"train.recompute", Want::kTable},
    {"train.recompute.granularity", Want::kText},
    {"train.recompute.method", Want::kText},
    {"train.recompute.num_layers", Want::kInteger},
    {"train.recompute.modules", Want::kList},
    {"train.recompute.distribute_saved_activations", Want::kFlag},
    {"rank", Want::kTable},
    {"rank.pp", Want::kInteger},
    {"measured", Want::kTable, true},
    {"measured.peak_allocated", Want::kInteger},
    {"measured.peak_reserved", Want::kInteger},
    {"measured.step_seconds", Want::kNumber},
};

void read_model(const Node& node, job::Job& job) {
  model::Architecture& m = job.model;
  m = {};  // none of Megatron's command-line defaults
  m.model_type = "gpt";
  m.hidden = integer_or(node, "hidden", 0);
  m.vocab = integer_or(node, "vocab", 0);
  m.tied_embeddings = flag_of(node, "tied_embeddings");
  m.rope = true;
  model::Layer layer;
  layer.attention.heads = integer_or(node, "heads", 0);
  layer.attention.kv_heads = integer_or(node, "kv_heads", layer.attention.heads);
  layer.attention.head_dim =
      integer_or(node, "head_dim", layer.attention.heads > 0 ? m.hidden / layer.attention.heads : 0);
  layer.ffn.width = integer_or(node, "ffn", 0);
  if (const std::int64_t experts = integer_or(node, "experts", 0); experts > 0) {
    layer.ffn.experts = experts;
    layer.ffn.experts_per_token = integer_or(node, "topk", 2);  // the recording program's default
    layer.ffn.expert_width = integer_or(node, "moe_ffn", 0);
    job.moe.grouped_gemm = false;
    job.moe.dispatcher = job::DispatcherKind::kAllToAll;
  }
  m.kinds = {layer};
  // One layer above the limit is refused as a million are, without making room for them.
  const std::int64_t layers = std::clamp<std::int64_t>(integer_or(node, "layers", 0), 0, model::limits::kDepth + 1);
  m.layers.assign(static_cast<std::size_t>(layers), 0);
}

Status read_recompute(const Node& node, job::Recompute& recompute) {
  const std::string granularity = text_of(node, "granularity");
  if (granularity.empty()) return {};
  if (granularity == "full") {
    recompute.granularity = job::RecomputeGranularity::kFull;
    const std::string method = text_of(node, "method");
    if (method != "uniform" && method != "block")
      return bad_input(fmt::format("recompute method '{}' is neither uniform nor block", method));
    recompute.method = method == "block" ? job::RecomputeMethod::kBlock : job::RecomputeMethod::kUniform;
    recompute.num_layers = integer_or(node, "num_layers", 1);
    recompute.distribute_saved = flag_of(node, "distribute_saved_activations");
    return {};
  }
  if (granularity != "selective")
    return bad_input(fmt::format("recompute granularity '{}' is neither selective nor full", granularity));
  recompute.granularity = job::RecomputeGranularity::kSelective;
  const Node* modules = node.find("modules");
  if (modules == nullptr) return {};
  for (const Node& module : modules->items) {
    if (module.text == "core_attn") {
      recompute.modules.core_attn = true;
    } else if (module.text == "mlp") {
      recompute.modules.mlp = true;
    } else if (module.text == "layernorm") {
      recompute.modules.layernorm = true;
    } else if (module.text == "moe") {
      recompute.modules.moe = true;
    } else if (module.text == "moe_act") {
      recompute.modules.moe_act = true;
    } else {
      return bad_input(fmt::format("recompute module '{}' is not known", module.text));
    }
  }
  return {};
}

std::string recompute_group(const Node& node) {
  std::string name = text_of(node, "granularity");
  if (name.empty()) return "none";
  if (name == "full") return "full " + text_of(node, "method");
  name.clear();
  if (const Node* modules = node.find("modules"))
    for (const Node& module : modules->items) name += (name.empty() ? "" : "+") + module.text;
  return name;
}

}  // namespace

Record read_megatron_recording(const Node& node) {
  Record record;
  record.id = text_of(node, "id");
  record.skip = first_problem(node, kFields);
  if (!record.skip.empty()) return record;
  const Node& parallel = table_of(node, "parallel");
  const Node& train = table_of(node, "train");
  const Node& measured = table_of(node, "measured");
  if (!measured.has("peak_allocated") && !measured.has("step_seconds")) {
    record.skip = "measured has neither peak_allocated nor step_seconds; wanted one of them";
    return record;
  }
  record.groups = {{"framework", "megatron-lm"},
                   {"gpu", text_of(node, "gpu")},
                   {"precision", text_of(train, "precision")},
                   {"recompute", recompute_group(table_of(train, "recompute"))},
                   {"implementation", text_of(node, "implementation")},
                   {"allocator", text_of(node, "allocator").empty() ? "default" : text_of(node, "allocator")}};

  job::Job job = job::defaults_for(job::Framework::kMegatronLm);
  job.name = record.id;
  read_model(table_of(node, "model"), job);
  job.pad_vocab = false;
  auto gpu = cluster::find_gpu(text_of(node, "gpu"));
  if (!gpu) {
    record.skip = to_string(gpu.error());
    return record;
  }
  job.cluster.gpu = *gpu;
  job.cluster.gpus = integer_or(node, "world_size", 1);
  job::Parallel& p = job.parallel;
  p.tensor = integer_or(parallel, "tp", 1);
  p.pipeline = integer_or(parallel, "pp", 1);
  p.virtual_pipeline = std::max<std::int64_t>(1, integer_or(parallel, "vpp", 1));
  p.context = integer_or(parallel, "cp", 1);
  p.expert = integer_or(parallel, "ep", 1);
  // All peers look alike to a fake all-to-all: every copy lands here (facts megatron-anatomy.md 2.4).
  job.moe.every_peer_routes_here = job.model.has_moe() && p.expert > 1;
  p.sequence_parallel = flag_of(parallel, "sequence_parallel");
  p.account_for_embedding = flag_of(parallel, "account_for_embedding_in_pipeline_split");
  p.account_for_loss = flag_of(parallel, "account_for_loss_in_pipeline_split");
  p.overlap_p2p = false;
  job.batch.seq_length = integer_or(train, "seq", 0);
  job.batch.micro_batch = integer_or(train, "micro_batch", 1);
  const auto per_rank = checked_mul(integer_or(train, "num_microbatches", 1), job.batch.micro_batch);
  const auto global_batch = per_rank ? checked_mul(*per_rank, integer_or(parallel, "dp", 1)) : std::nullopt;
  job.batch.global_batch = global_batch.value_or(-1);  // complete() refuses what no batch can be
  job.precision.params = job.precision.compute = job::DType::kBf16;
  job.optimizer.impl = job::OptimizerImpl::kForeach;
  job.optimizer.distributed = flag_of(train, "distributed_optimizer");
  job.optimizer.grad_reduce_in_fp32 = flag_of(train, "grad_reduce_in_fp32");
  job.optimizer.overlap_grad_reduce = flag_of(train, "overlap_grad_reduce");
  job.kernels.implementation = job::Implementation::kLocal;
  job.kernels.attention = job::AttentionBackend::kFlash;
  job.kernels.rope_fusion = false;
  job.kernels.gradient_accumulation_fusion = false;
  job.kernels.mask_in_dataloader = false;
  job.kernels.logits = job::DType::kBf16;
  job.kernels.loss =
      flag_of(train, "cross_entropy_loss_fusion") ? job::LossKind::kNativeFused : job::LossKind::kUnfused;
  if (!text_of(node, "allocator").empty()) job.environment["PYTORCH_CUDA_ALLOC_CONF"] = text_of(node, "allocator");
  if (auto status = read_recompute(table_of(train, "recompute"), job.recompute); !status)
    record.skip = to_string(status.error());
  if (auto status = job::complete(job); !status && record.skip.empty()) record.skip = to_string(status.error());
  if (const std::int64_t dp = integer_or(parallel, "dp", 1); record.skip.empty() && dp != job.data_parallel)
    record.skip =
        fmt::format("parallel.dp is {}, but {} GPUs with these sizes make {}", dp, job.cluster.gpus, job.data_parallel);
  record.job = std::move(job);
  record.pp_rank = integer_or(table_of(node, "rank"), "pp", 0);
  if (measured.has("peak_allocated")) record.peak_allocated = integer_or(measured, "peak_allocated", 0);
  if (measured.has("peak_reserved")) record.peak_reserved = integer_or(measured, "peak_reserved", 0);
  if (const Node* speed = node.find("host_speed")) record.host_speed = speed->as_real();
  if (const Node* seconds = measured.find("step_seconds"); seconds != nullptr && seconds->is_number())
    record.step_seconds = seconds->as_real();
  return record;
}

}  // namespace plimsoll::truth
