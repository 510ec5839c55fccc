// SPDX-License-Identifier: Apache-2.0
#include "live/proof_megatron.h"

#include <algorithm>

namespace plimsoll::live {

namespace {

using document::Node;

std::string why_model_is_not(const model::Architecture& model) {
  if (model.kinds.size() != 1) return "its layers differ";
  const model::Layer& layer = model.kinds.front();
  const model::Attention& attention = layer.attention;
  if (attention.kind != model::AttentionKind::kGqa || attention.sinks || attention.output_gate || attention.softcap ||
      attention.sliding_window > 0 || attention.qk_norm != model::QkNorm::kNone || attention.qkv_bias)
    return "its attention is not the plain one with grouped queries";
  if (layer.ffn.is_moe()) return "it has experts, whose messages a fake process group cannot carry";
  if (!layer.ffn.gated || layer.ffn.bias || layer.ffn.activation != model::Activation::kSilu)
    return "its MLP is not SwiGLU without biases";
  if (model.norm != model::NormKind::kRms || layer.norms != 2 || layer.parallel_block || !model.rope)
    return "its blocks are not RMSNorm, attention, RMSNorm, MLP with rotary positions";
  if (model.hidden_dropout > 0 || model.attention_dropout > 0) return "it has dropout";
  if (model.mtp_layers > 0) return "it predicts several tokens";
  return "";
}

std::string why_split_is_not(const job::Parallel& parallel) {
  if (parallel.context > 1 || parallel.expert > 1) return "it is split by context or experts";
  if (!parallel.layout.empty() || parallel.layers_in_first_stage || parallel.layers_in_last_stage ||
      parallel.account_for_embedding || parallel.account_for_loss)
    return "its stages are not equal";
  return "";
}

std::string why_state_is_not(const job::Job& job) {
  if (job.optimizer.kind != job::OptimizerKind::kAdam || job.optimizer.precision_aware)
    return "its optimizer is not Adam with fp32 states";
  if (job.optimizer.cpu_offload_fraction > 0 || job.offload.activations || job.offload.fine_grained)
    return "it keeps something on the host";
  if (job.sharding.kind != job::ShardingKind::kNone && job.sharding.kind != job::ShardingKind::kDdp)
    return "it is sharded by FSDP";
  if (job.precision.params != job::DType::kBf16) return "its weights are not bf16";
  if (job.adapter.kind != job::AdapterKind::kNone) return "it trains an adapter";
  if (job.kernels.cuda_graphs != job::CudaGraphs::kNone) return "it captures graphs";
  return "";
}

Node recompute_node(const job::Recompute& recompute) {
  Object object;
  if (recompute.granularity == job::RecomputeGranularity::kFull) {
    object.set("recompute_granularity", "full");
    object.set("recompute_method", recompute.method == job::RecomputeMethod::kBlock ? "block" : "uniform");
    object.set("recompute_num_layers", recompute.num_layers);
    object.set("distribute_saved_activations", recompute.distribute_saved);
  } else if (recompute.granularity == job::RecomputeGranularity::kSelective) {
    Node modules;
    modules.kind = Node::Kind::kArray;
    const job::RecomputeModules& chosen = recompute.modules;
    if (chosen.core_attn) modules.items.push_back(node_of(std::string_view("core_attn")));
    if (chosen.layernorm) modules.items.push_back(node_of(std::string_view("layernorm")));
    if (chosen.mlp) modules.items.push_back(node_of(std::string_view("mlp")));
    object.set("recompute_granularity", "selective").add("recompute_modules", std::move(modules));
  }
  return object.take();
}

}  // namespace

std::string why_megatron_is_not_provable(const job::Job& job) {
  if (job.kernels.implementation != job::Implementation::kLocal)
    return "its layers are Transformer Engine's; --transformer-impl local proves Megatron's own";
  for (const std::string& why : {why_model_is_not(job.model), why_split_is_not(job.parallel), why_state_is_not(job)})
    if (!why.empty()) return why;
  if (job.kernels.mask_in_dataloader)
    return "its data loader makes attention masks; --create-attention-mask-in-dataloader false leaves them out";
  if (job.kernels.gradient_accumulation_fusion || job.kernels.rope_fusion)
    return "it fuses gradients or rotation with kernels of apex or Transformer Engine; "
           "--gradient-accumulation-fusion false and --apply-rope-fusion false leave them out";
  return "";
}

void add_megatron(const job::Job& job, std::int64_t pp_rank, Object& spec) {
  const model::Layer& layer = job.model.kinds.front();
  const job::Parallel& parallel = job.parallel;
  spec.set("program", "megatron").set("pp_rank", pp_rank).set("layers", job.model.layers.size());
  spec.set("hidden", job.model.hidden).set("heads", layer.attention.heads).set("kv_heads", layer.attention.kv_heads);
  spec.set("head_dim", layer.attention.head_dim).set("ffn", layer.ffn.width).set("tied", job.model.tied_embeddings);
  spec.set("tensor", parallel.tensor).set("pipeline", parallel.pipeline);
  spec.set("virtual_stages", std::max<std::int64_t>(1, parallel.virtual_pipeline));
  spec.set("sequence_parallel", parallel.sequence_parallel).set("overlap_p2p", parallel.overlap_p2p);
  spec.set("data_parallel", job.data_parallel).set("clip", job.clip_grad);
  spec.set("attention", job.kernels.attention == job::AttentionBackend::kUnfused ? "unfused" : "flash");
  spec.set("fused_loss", job.kernels.loss != job::LossKind::kUnfused);
  spec.set("distributed_optimizer", job.optimizer.distributed);
  spec.set("grad_reduce_in_fp32", job.optimizer.grad_reduce_in_fp32);
  spec.set("overlap_grad_reduce", job.optimizer.overlap_grad_reduce);
  spec.set("overlap_param_gather", job.optimizer.overlap_param_gather && job.optimizer.distributed);
  spec.add("recompute", recompute_node(job.recompute));
}

}  // namespace plimsoll::live
