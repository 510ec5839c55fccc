// SPDX-License-Identifier: Apache-2.0
// Random jobs that complete() accepts, small enough to walk thousands of them.
#pragma once

#include <optional>
#include <random>

#include "job/job.h"

namespace plimsoll::testing {

// A draw from a fixed set.
template <class T>
T one_of(std::mt19937_64& random, std::initializer_list<T> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

inline bool chance(std::mt19937_64& random, int percent) { return static_cast<int>(random() % 100) < percent; }

inline model::Architecture random_model(std::mt19937_64& random) {
  model::Architecture m;
  m.model_type = "gpt";
  m.hidden = one_of<std::int64_t>(random, {256, 512, 1024});
  m.vocab = one_of<std::int64_t>(random, {1000, 32000, 50257});
  m.tied_embeddings = chance(random, 30);
  m.norm = chance(random, 70) ? model::NormKind::kRms : model::NormKind::kLayer;
  m.rope = chance(random, 70);
  m.position_rows = m.rope ? 0 : 4096;
  m.hidden_dropout = chance(random, 30) ? 0.1 : 0;
  m.attention_dropout = m.hidden_dropout;
  model::Layer dense;
  dense.attention.heads = 16;
  dense.attention.kv_heads = one_of<std::int64_t>(random, {8, 16});
  dense.attention.head_dim = m.hidden / 16;
  if (chance(random, 20)) dense.attention.qk_norm = model::QkNorm::kPerHead;
  if (chance(random, 20)) {
    dense.attention.kind = model::AttentionKind::kMla;
    dense.attention.q_lora_rank = 128;
    dense.attention.kv_lora_rank = 64;
    dense.attention.qk_nope_dim = 32;
    dense.attention.qk_rope_dim = 16;
    dense.attention.v_head_dim = 32;
    m.rope = true;
    m.position_rows = 0;
  }
  dense.ffn.width = 4 * m.hidden;
  dense.ffn.gated = chance(random, 70);
  m.kinds = {dense};
  m.layers.assign(static_cast<std::size_t>(one_of<int>(random, {8, 16, 24})), 0);
  if (chance(random, 30)) {
    model::Layer moe = dense;
    moe.ffn.experts = 8;
    moe.ffn.experts_per_token = one_of<std::int64_t>(random, {1, 2});
    moe.ffn.expert_width = m.hidden;
    moe.ffn.shared_width = chance(random, 50) ? m.hidden : 0;
    m.kinds.push_back(moe);
    for (std::size_t i = 1; i < m.layers.size(); ++i) m.layers[i] = chance(random, 80) ? 1 : 0;
  }
  return m;
}

inline void random_recompute(std::mt19937_64& random, job::Job& job) {
  switch (random() % 4) {
    case 0:
      break;
    case 1:
      job.recompute.granularity = job::RecomputeGranularity::kSelective;
      job.recompute.modules.core_attn = chance(random, 60);
      job.recompute.modules.mlp = chance(random, 40);
      job.recompute.modules.layernorm = chance(random, 40);
      job.recompute.modules.moe = chance(random, 20);
      job.recompute.modules.moe_act = !job.recompute.modules.moe && chance(random, 20);
      job.recompute.modules.mla_up_proj = chance(random, 20);
      if (!job.recompute.modules.mlp) job.recompute.modules.core_attn = true;
      break;
    case 2:
      job.recompute.granularity = job::RecomputeGranularity::kFull;
      job.recompute.method = job::RecomputeMethod::kUniform;
      job.recompute.num_layers = one_of<std::int64_t>(random, {1, 2, 3});
      break;
    default:
      job.recompute.granularity = job::RecomputeGranularity::kFull;
      job.recompute.method = job::RecomputeMethod::kBlock;
      job.recompute.num_layers = one_of<std::int64_t>(random, {1, 2});
  }
}

// A Megatron job; nothing when this draw contradicts itself.
inline std::optional<job::Job> random_megatron_job(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  job::Job job = job::defaults_for(chance(random, 50) ? job::Framework::kMegatronLm : job::Framework::kMegatronBridge);
  job.model = random_model(random);
  job.cluster.gpu = cluster::find_gpu(one_of<const char*>(random, {"h100", "a100-sxm-80gb", "gb200"})).value();
  job::Parallel& p = job.parallel;
  p.tensor = one_of<std::int64_t>(random, {1, 2, 4});
  p.pipeline = one_of<std::int64_t>(random, {1, 2, 4});
  if (p.pipeline > 1) p.virtual_pipeline = one_of<std::int64_t>(random, {1, 2});
  p.sequence_parallel = p.tensor > 1 && chance(random, 70);
  p.context = one_of<std::int64_t>(random, {1, 1, 2});
  const std::int64_t dp = one_of<std::int64_t>(random, {1, 2, 4});
  job.cluster.gpus = p.tensor * p.pipeline * p.context * dp;
  if (job.model.has_moe()) {
    p.expert = one_of<std::int64_t>(random, {1, 2});
    p.expert_tensor = chance(random, 50) ? 1 : p.tensor;
    if (p.tensor > 1) p.sequence_parallel = true;
  }
  job.batch.seq_length = one_of<std::int64_t>(random, {512, 1024, 2048});
  job.batch.micro_batch = one_of<std::int64_t>(random, {1, 2});
  job.batch.global_batch = job.batch.micro_batch * dp * p.pipeline * one_of<std::int64_t>(random, {1, 2, 5});
  job.precision.params = job.precision.compute = job::DType::kBf16;
  job.kernels.logits = job::DType::kBf16;
  if (chance(random, 20)) job.precision.fp8 = one_of(random, {job::Fp8Recipe::kTensorwise, job::Fp8Recipe::kMxfp8});
  job.kernels.implementation =
      chance(random, 60) ? job::Implementation::kTransformerEngine : job::Implementation::kLocal;
  if (job.precision.fp8 != job::Fp8Recipe::kNone) job.kernels.implementation = job::Implementation::kTransformerEngine;
  job.kernels.attention = p.context == 1 && chance(random, 20)
                              ? job::AttentionBackend::kUnfused
                              : one_of(random, {job::AttentionBackend::kFlash, job::AttentionBackend::kFused});
  job.kernels.loss = one_of(random, {job::LossKind::kUnfused, job::LossKind::kNativeFused, job::LossKind::kTe});
  job.kernels.gradient_accumulation_fusion = chance(random, 50);
  job.kernels.rope_fusion = chance(random, 70);
  job.kernels.mask_in_dataloader = chance(random, 30);
  job.optimizer.distributed = chance(random, 70);
  job.optimizer.grad_reduce_in_fp32 = chance(random, 60);
  job.optimizer.impl = chance(random, 70) ? job::OptimizerImpl::kFused : job::OptimizerImpl::kForeach;
  random_recompute(random, job);
  const bool no_recompute = job.recompute.granularity == job::RecomputeGranularity::kNone;
  if (p.pipeline == 1 && no_recompute && chance(random, 30)) {
    job.offload.activations = true;
    job.offload.activation_layers = 3;
  } else if (no_recompute && chance(random, 20)) {
    job.offload.fine_grained = true;
    job.offload.modules.core_attn = job.offload.modules.attn_norm = job.offload.modules.qkv_linear = true;
    job.offload.min_tensor_elements = 1;
  }
  if (p.pipeline > 1 && chance(random, 20)) {
    p.defer_embedding_wgrad = true;
    p.wgrad_deferral_limit = one_of<std::int64_t>(random, {0, 1, 2});
  }
  if (chance(random, 15)) job.model.mtp_layers = 1;
  if (chance(random, 10)) {
    job.adapter.kind = chance(random, 70) ? job::AdapterKind::kLora : job::AdapterKind::kDora;
    job.adapter.targets = {chance(random, 50) ? "linear_qkv" : "all-linear"};
  }
  if (chance(random, 10))
    job.kernels.cuda_graphs = one_of(random, {job::CudaGraphs::kPerLayer, job::CudaGraphs::kFullIteration});
  if (p.pipeline == 1 && chance(random, 10)) {
    job.sharding.kind = job::ShardingKind::kMegatronFsdp;
    job.optimizer.distributed = true;
  }
  if (!job::complete(job)) return std::nullopt;
  return job;
}

}  // namespace plimsoll::testing
