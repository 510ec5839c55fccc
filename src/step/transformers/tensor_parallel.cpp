// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/tensor_parallel.h"

#include <algorithm>

namespace plimsoll::step::transformers {

job::Job tensor_parallel_share(const job::Job& job) {
  job::Job share = job;
  const std::int64_t tp = job.parallel.tensor;
  if (tp <= 1) return share;
  const auto split = [tp](std::int64_t& size) {
    if (size > 0) size = std::max<std::int64_t>(1, size / tp);
  };
  for (model::Layer& kind : share.model.kinds) {
    split(kind.attention.heads);
    split(kind.attention.kv_heads);
    split(kind.attention.index_heads);
    split(kind.attention.linear_key_heads);
    split(kind.attention.linear_value_heads);
    split(kind.ffn.width);
    split(kind.ffn.expert_width);
    split(kind.ffn.shared_width);
  }
  split(share.model.vocab);  // vocabulary-parallel embedding, head and loss
  split(share.vocab_rows);
  return share;
}

std::vector<std::string> unmodelled(const job::Job& job) {
  std::vector<std::string> warnings;
  const auto warn = [&](bool set, const char* text) {
    if (set) warnings.emplace_back(text);
  };
  warn(job.parallel.pipeline > 1,
       "pipeline parallelism outside Megatron: every layer is counted on each rank and one micro-batch in flight");
  warn(job.parallel.tensor > 1 && job.parallel.sequence_parallel,
       "sequence parallelism outside Megatron: the residual stream and the norms are counted whole on each rank");
  warn(job.parallel.expert > 1, "expert parallelism outside Megatron: every expert is counted on each rank");
  warn(job.parallel.context > 1, "context parallelism outside Megatron: its key and value buffers are not counted");
  warn(job.kernels.torch_compile, "torch_compile: tensors are counted as eager PyTorch keeps them, which is more");
  warn(job.offload.checkpointed_inputs, "activation_offloading: kept activations are counted on the GPU");
  return warnings;
}

}  // namespace plimsoll::step::transformers
