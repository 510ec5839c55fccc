// SPDX-License-Identifier: Apache-2.0
// Jobs whose tensors are all multiples of 512 bytes, so that sums of formulas are exact, and the letters of
// facts megatron-anatomy.md 0 computed from plain numbers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "job/job.h"
#include "job/pipeline_layout.h"
#include "step/megatron/chunk.h"
#include "step/megatron/layer.h"
#include "step/megatron/sizes.h"
#include "step/tape.h"

namespace plimsoll::step::test {

// Llama-3 70B, TP 4 with sequence parallelism, one sequence of 4096 tokens, Megatron's local layers as in
// the recordings.
inline job::Job llama_70b() {
  job::Job job = job::defaults_for(job::Framework::kMegatronLm);
  model::Architecture& m = job.model;
  m = {};
  m.model_type = "gpt";
  m.hidden = 8192;
  m.vocab = 128256;
  model::Layer layer;
  layer.attention.heads = 64;
  layer.attention.kv_heads = 8;
  layer.attention.head_dim = 128;
  layer.ffn.width = 28672;
  m.kinds = {layer};
  m.layers.assign(80, 0);
  job.pad_vocab = false;
  job.cluster.gpu = cluster::find_gpu("h200").value();
  job.cluster.gpus = 32;
  job.parallel.tensor = 4;
  job.parallel.pipeline = 4;
  job.parallel.virtual_pipeline = 5;
  job.parallel.sequence_parallel = true;
  job.batch.seq_length = 4096;
  job.batch.micro_batch = 1;
  job.batch.global_batch = 32;
  job.precision.params = job.precision.compute = job::DType::kBf16;
  job.optimizer.impl = job::OptimizerImpl::kForeach;
  job.optimizer.distributed = true;
  job.optimizer.grad_reduce_in_fp32 = true;
  job.kernels.implementation = job::Implementation::kLocal;
  job.kernels.attention = job::AttentionBackend::kFlash;
  job.kernels.rope_fusion = false;
  job.kernels.gradient_accumulation_fusion = false;
  job.kernels.mask_in_dataloader = false;
  job.kernels.logits = job::DType::kBf16;
  job.kernels.loss = job::LossKind::kNativeFused;
  return job;
}

inline job::Job with_transformer_engine(job::Job job) {
  job.kernels.implementation = job::Implementation::kTransformerEngine;
  job.kernels.rope_fusion = true;
  job.kernels.gradient_accumulation_fusion = true;
  return job;
}

inline job::Job completed(job::Job job) {
  const auto status = job::complete(job);
  EXPECT_TRUE(status) << to_string(status.error());
  return job;
}

// Short names of facts megatron-anatomy.md 0 for bf16.
struct Letters {
  std::int64_t h, f, a, k, d, s, b, t, ts;
  [[nodiscard]] std::int64_t T() const { return s * b; }
  [[nodiscard]] std::int64_t H() const { return 2 * h * T() / ts; }
  [[nodiscard]] std::int64_t HF() const { return 2 * h * T(); }
  [[nodiscard]] std::int64_t QKV() const { return 2 * (a + 2 * k) * d / t * T(); }
  [[nodiscard]] std::int64_t Q() const { return 2 * a * d / t * T(); }
  [[nodiscard]] std::int64_t KV() const { return 2 * k * d / t * T(); }
  [[nodiscard]] std::int64_t F1() const { return 4 * f / t * T(); }
  [[nodiscard]] std::int64_t F2() const { return 2 * f / t * T(); }
  [[nodiscard]] std::int64_t LSE() const { return 4 * a / t * T(); }
  [[nodiscard]] std::int64_t stats() const { return 8 * T() / ts; }  // of both norms
  [[nodiscard]] std::int64_t rope() const { return 8 * s * d; }
  // A of facts megatron-anatomy.md 2.1.
  [[nodiscard]] std::int64_t A() const {
    return 4 * H() + QKV() + 2 * Q() + KV() + F1() + F2() + LSE() + stats() + rope();
  }
};

inline Letters letters_of_llama_70b() { return {8192, 28672, 64, 8, 128, 4096, 1, 4, 4}; }

// Bytes that one layer keeps from forward to backward, its input included and its output not.
inline std::int64_t kept_by_a_layer(const job::Job& job, const model::Layer& kind,
                                    megatron::OffloadScope offload = megatron::OffloadScope::kNone) {
  const megatron::Choices choices = megatron::choices_of(job);
  const megatron::LayerSizes sizes = megatron::layer_sizes(job, kind, false);
  const megatron::Layer layer(choices, sizes, offload);
  Tape tape;
  const Tensor x = tape.alloc(sizes.h, Name::kLayerInput);
  megatron::Kept kept;
  Tensor y = layer.forward(tape, x, kept, true);
  tape.free(y);
  const std::int64_t live = tape.live();
  // Its backward frees all of it but the gradient of its input.
  layer.reload(tape, kept);
  megatron::ResidualGrad grad;
  layer.backward(tape, kept, grad);
  tape.free(grad.tensor);
  EXPECT_EQ(tape.live(), 0) << "backward leaves tensors behind";
  return live;
}
inline std::int64_t kept_by_a_layer(const job::Job& job) { return kept_by_a_layer(job, job.model.kinds.front()); }

inline job::Job with_selective(job::Job job, const job::RecomputeModules& modules) {
  job.recompute.granularity = job::RecomputeGranularity::kSelective;
  job.recompute.modules = modules;
  return job;
}

}  // namespace plimsoll::step::test
