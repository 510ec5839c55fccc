// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "lever/proposers.h"

namespace plimsoll::lever {

bool runs_hub_modules(const job::Job& job) {
  return !job.is_megatron() && job.kernels.implementation != job::Implementation::kTorchtitan;
}

void expandable_segments(const job::Job& job, Proposals& proposals) {
  const bool has = std::any_of(job.environment.begin(), job.environment.end(), [](const auto& variable) {
    return variable.first.ends_with("ALLOC_CONF") &&
           lower(variable.second).find("expandable_segments:true") != std::string::npos;
  });
  if (!has) proposals.add("expandable segments", {{"environment.PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}});
}

void flash_attention(const job::Job& job, Proposals& proposals) {
  // FlashAttention and cuDNN have no fp32 kernels: nothing to win there before the precision changes.
  if (job.kernels.attention == job::AttentionBackend::kUnfused && job.precision.compute != job::DType::kFp32 &&
      job.kernels.implementation != job::Implementation::kLocal)
    proposals.add("flash attention", {{"attention_backend", "flash"}});
}

void chunked_loss(const job::Job& job, Proposals& proposals) {
  if (job.kernels.implementation == job::Implementation::kTorchtitan) {
    if (job.kernels.loss != job::LossKind::kChunked) proposals.add("chunked loss", {{"loss", "chunked"}});
  } else if (job.kernels.loss == job::LossKind::kTransformers) {
    proposals.add("Liger kernels", {{"use_liger_kernel", "true"}});
  } else if (job.is_megatron() && job.kernels.loss == job::LossKind::kUnfused &&
             job.kernels.implementation == job::Implementation::kTransformerEngine) {
    proposals.add("fused cross-entropy", {{"cross_entropy_loss_fusion", "true"},
                                          {"cross_entropy_fusion_impl", std::string(job.facts().fused_loss)}});
  }
}

void cuda_graphs(const job::Job& job, Proposals& proposals) {
  if (!job.is_megatron() || job.kernels.cuda_graphs != job::CudaGraphs::kNone ||
      job.kernels.implementation != job::Implementation::kTransformerEngine)
    return;
  // Layers whose tokens are counted on the host cannot be captured whole (facts rules.md): their attention can.
  const std::string modules = job.model.has_moe() ? "[attn]" : "[attn,mlp]";
  const bool recomputes_layers = job.recompute.granularity == job::RecomputeGranularity::kFull;
  if (!recomputes_layers)
    proposals.add("CUDA graphs of layers",
                  {{"cuda_graph_impl", "transformer_engine"}, {"cuda_graph_modules", modules}});
  if (!job.model.has_moe()) proposals.add("CUDA graph of the iteration", {{"cuda_graph_impl", "full_iteration"}});
}

}  // namespace plimsoll::lever
