// SPDX-License-Identifier: Apache-2.0
// What of a job decides the price of its operations: number formats, host, graphs, groups and overlap.
#include <algorithm>
#include <string_view>

#include "document/node.h"
#include "job/effective.h"
#include "timing/passes.h"

namespace plimsoll::timing {

namespace {

bool names(const job::Job& job, std::string_view module) {
  const auto& modules = job.kernels.cuda_graph_modules;
  return modules.empty() || std::find(modules.begin(), modules.end(), module) != modules.end();
}

// HybridEP's buffers under graphs of whole iterations hold this many times the rows of balanced routing.
double rank_capacity(const job::Job& job) {
  const auto stated = job.stated.find("moe_expert_rank_capacity_factor");
  if (stated == job.stated.end()) return 1;
  const document::Node number = document::parse_scalar(stated->second);
  return number.is_number() ? std::clamp(number.as_real(), 1.0, 16.0) : 1;
}

void set_number(const job::Job& job, Prices& p) {
  // Bytes per element that a cast moves, both layouts and the read for the scale (facts step-time.md 3).
  if (job.precision.fp4) {
    p.number = Number::kNvfp4;
    p.cast_input = p.cast_gradient = 8;  // rotation and rounding read it once more
    p.cast_kernels = p.cast_calls = p.cast_launches = 3;
    return;
  }
  // Blackwell multiplies FP8 in every layout: no transposed copy is written.
  const double copies = job.cluster.gpu.is_blackwell() ? 1 : 2;
  switch (job.precision.fp8) {
    case job::Fp8Recipe::kNone:
      return;
    case job::Fp8Recipe::kDelayed:
      p.number = Number::kFp8;
      p.cast_input = p.cast_gradient = 2 + copies;  // the scale is known beforehand
      p.cast_kernels = p.cast_launches = 1;
      return;
    case job::Fp8Recipe::kTensorwise:
      p.number = Number::kFp8;
      p.cast_input = p.cast_gradient = 4 + copies;
      p.cast_kernels = 2;
      p.cast_launches = 4;  // the largest element is set to zero and found, the scale made of it, the tensor cast
      return;
    case job::Fp8Recipe::kBlockwise:
      p.number = Number::kFp8;
      p.cast_input = p.cast_gradient = 6;
      p.cast_kernels = p.cast_launches = 1;
      p.scaling_cost = 1.15;  // partial sums are scaled outside the tensor cores
      return;
    case job::Fp8Recipe::kMxfp8:
      p.number = Number::kMxfp8;
      p.cast_input = p.cast_gradient = 6;
      p.cast_kernels = p.cast_launches = 1;
      p.scale_kernels = 2;
      return;
  }
}

void set_host(const job::Job& job, Prices& p) {
  const Calibration& c = *p.machine->calibration;
  switch (job.kernels.implementation) {
    case job::Implementation::kTransformerEngine:
      p.host_kernel = c.host_kernel_te;
      break;
    case job::Implementation::kLocal:
      p.host_kernel = c.host_kernel_local;
      break;
    default:
      p.host_kernel = c.host_kernel_eager;
      break;
  }
  const bool fused = job.kernels.implementation == job::Implementation::kTransformerEngine || job.kernels.torch_compile;
  p.local = job.kernels.implementation == job::Implementation::kLocal;
  p.host_speed = p.machine->host_speed_for(job);
  p.stream_scale = fused ? 1 : 1 / c.eager_stream;
  p.host_kernel /= p.host_speed;
  p.host_graph_kernel = p.host_kernel * c.host_graph;
  p.host_message = c.host_message / p.host_speed;
  const bool whole = job.kernels.cuda_graphs == job::CudaGraphs::kFullIteration;
  const bool layers = job.kernels.cuda_graphs == job::CudaGraphs::kPerLayer;
  p.graphs_attention = whole || (layers && names(job, "attn"));
  p.graphs_mlp = whole || (layers && names(job, "mlp"));
  p.graphs_router = whole || (layers && (names(job, "moe_router") || names(job, "moe")));
  p.graphs_mixer = whole || (layers && names(job, "mamba"));
  p.graphs_experts = whole || (layers && (job.kernels.cuda_graph_modules.empty() || names(job, "moe")));
  // A dropless dispatch waits for the counts of tokens per expert.
  p.moe_sync = job.moe.capacity_factor || whole ? 0 : c.moe_sync / p.host_speed;
}

}  // namespace

Prices::Prices(const job::Job& job, const Machine& on, bool is_alone) : machine(&on), alone(is_alone) {
  const Calibration& c = *on.calibration;
  set_number(job, *this);
  set_host(job, *this);
  const bool fused = job.kernels.gradient_accumulation_fusion && job.is_megatron();
  weight_gradient_bytes = fused ? (job.optimizer.grad_reduce_in_fp32 ? 8 : 4) : 2;
  const std::int64_t t = job.parallel.tensor;
  tensor = span_of(on, t, 1);
  context = span_of(on, job.parallel.context, t);
  const std::int64_t et = job.expert_tensor();
  expert = span_of(on, job.parallel.expert * et, 1);
  // Userbuffers split a product into as many pieces as ranks while its input arrives, into four while its output
  // leaves, and gather what is already quantised. MXFP8 goes through them, too (Transformer Engine fills their buffers
  // with its data and scales; 405B at TP 4 costs 6 % more than in FP8, not the 15 % of messages in the open).
  const bool userbuffers = job::overlaps_tensor_messages(job) && job.is_megatron();
  tensor_share = userbuffers ? c.tensor_exposed : job.is_megatron() ? 1 : c.tensor_exposed_alone;
  hides_behind_products = job.is_megatron() && !userbuffers;
  // PyTorch's asynchronous tensor parallelism hides half as much (facts step-time.md 7: 1.04 to 1.16 times faster).
  if (job::overlaps_tensor_messages(job) && !job.is_megatron()) tensor_share = (tensor_share + c.tensor_exposed) / 2;
  // torchtitan's float8 with one scale per tensor gathers what is already converted, too.
  const bool gathers_fp8 = userbuffers || (job.kernels.implementation == job::Implementation::kTorchtitan &&
                                           job.precision.fp8 == job::Fp8Recipe::kTensorwise);
  // MXFP8 has its scales along either direction: what rows and what columns need are gathered apart, two bytes again.
  if (gathers_fp8 && number == Number::kFp8) tensor_bytes = 0.5;
  // Userbuffers carry data: the scales of MXFP8 are gathered by NCCL. One scale for a tensor that is gathered in pieces
  // is that of the largest element of all ranks.
  const bool quantises_pieces = job.is_megatron() && t > 1 && job.parallel.sequence_parallel;
  if (userbuffers && number == Number::kMxfp8) gather_scales = 1;
  if (quantises_pieces && job.precision.fp8 == job::Fp8Recipe::kTensorwise) gather_amax = 1;
  if (userbuffers) {
    gather_chunks = static_cast<double>(t);
    scatter_chunks = 4;
  }
  fused_experts =
      job.kernels.cuda_graphs == job::CudaGraphs::kFullIteration && job.model.has_moe() && !job.moe.capacity_factor;
  if (fused_experts) padded_rows = rank_capacity(job);
  for (const model::Layer& kind : job.model.kinds) biased_experts = biased_experts || kind.ffn.expert_bias;
  expert_share = job.parallel.overlap_moe_expert_comm ? 1 - c.expert_hidden : 1;
  // torchtitan's figures are of PyTorch releases whose flash kernel is FlashAttention 2, and what is compiled calls
  // that kernel still.
  const bool calls_flash2 =
      job.kernels.implementation == job::Implementation::kTorchtitan ||
      (job.kernels.implementation == job::Implementation::kTransformers && job.kernels.torch_compile);
  if (calls_flash2 && job.kernels.attention == job::AttentionBackend::kFlash && job.cluster.gpu.is_hopper_or_newer())
    attention_slower = 1 / c.attention_flash2;
  if (job.precision.fp8_attention && job.precision.fp8 != job::Fp8Recipe::kNone) attention_slower /= c.attention_fp8;
  selective_ops = job.recompute.granularity == job::RecomputeGranularity::kSelectiveOps;
}

}  // namespace plimsoll::timing
