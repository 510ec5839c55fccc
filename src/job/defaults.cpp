// SPDX-License-Identifier: Apache-2.0
// What each framework does when it is told nothing. Sources: facts megatron-memory.md 3.1, 4.3, 10 and
// rules.md (version notes) for Megatron; other-frameworks-memory.md 1, 2.10, 5.4, 6.3, 6.4 for the others.
#include "job/job.h"

namespace plimsoll::job {

namespace {

void megatron_lm(Job& job) {
  job.precision.params = job.precision.compute = DType::kFp32;
  job.optimizer.grad_reduce_in_fp32 = false;
  job.kernels.mask_in_dataloader = true;
  job.kernels.loss = LossKind::kUnfused;
  job.kernels.logits = DType::kFp32;
  job.moe.grouped_gemm = false;
  job.moe.dispatcher = DispatcherKind::kAllGather;
  job.model_keys.swiglu_ffn_rule = true;
}

// Bridge's recipes: bf16_mixed, distributed optimizer with both overlaps, and the environment of its launcher.
void megatron_bridge(Job& job) {
  job.precision.bf16 = true;
  job.optimizer.grad_reduce_in_fp32 = true;
  job.optimizer.distributed = true;
  job.optimizer.overlap_grad_reduce = job.optimizer.overlap_param_gather = true;
  job.kernels.loss_fusion = true;
  job.kernels.loss = LossKind::kNativeFused;
  job.moe.permute_fusion = true;
  job.pad_vocab = false;
  job.environment = {{"NCCL_GRAPH_REGISTER", "0"},
                     {"NCCL_NVLS_ENABLE", "0"},
                     {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"},
                     {"TORCH_NCCL_AVOID_RECORD_STREAMS", "1"},
                     {"TORCH_NCCL_HIGH_PRIORITY", "1"}};
}

// Modules of Transformers: SDPA, fp32 loss, no fusion across modules.
void transformers(Job& job) {
  job.batch.micro_batch = 8;
  job.kernels.implementation = Implementation::kTransformers;
  job.kernels.attention = AttentionBackend::kFlash;
  job.kernels.loss = LossKind::kTransformers;
  job.kernels.rope_fusion = job.kernels.bias_activation_fusion = job.kernels.bias_dropout_fusion = false;
  job.kernels.gradient_accumulation_fusion = job.kernels.masked_softmax_fusion = false;
  job.optimizer.impl = OptimizerImpl::kFused;
  job.optimizer.grad_reduce_in_fp32 = false;
  job.moe.grouped_gemm = false;
  job.pad_vocab = false;
}

void fsdp2(Job& job) {
  transformers(job);
  job.sharding.kind = ShardingKind::kFsdp2;
  job.batch.micro_batch = 1;
}

void deepspeed(Job& job) {
  transformers(job);
  job.sharding.kind = ShardingKind::kZero;
  job.batch.micro_batch = 1;
}

// The TOML form's defaults (facts other-frameworks-memory.md 6.4).
void torchtitan(Job& job) {
  transformers(job);
  job.kernels.implementation = Implementation::kTorchtitan;
  job.sharding.kind = ShardingKind::kFsdp2;
  job.sharding.units = FsdpUnits::kTorchtitan;
  job.batch.seq_length = 2048;
  job.recompute.granularity = RecomputeGranularity::kFull;
  job.recompute.every_nth_layer = 2;
  job.moe.grouped_gemm = true;
}

}  // namespace

Job defaults_for(Framework framework) {
  Job job;
  job.framework = framework;
  switch (framework) {
    case Framework::kMegatronLm:
      megatron_lm(job);
      break;
    case Framework::kMegatronBridge:
      megatron_bridge(job);
      break;
    case Framework::kTransformers:
      transformers(job);
      break;
    case Framework::kFsdp2:
      fsdp2(job);
      break;
    case Framework::kDeepSpeed:
      deepspeed(job);
      break;
    case Framework::kTorchtitan:
      torchtitan(job);
      break;
  }
  return job;
}

}  // namespace plimsoll::job
