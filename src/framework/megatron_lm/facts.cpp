// SPDX-License-Identifier: Apache-2.0
// What Megatron-LM does when it is told nothing, and how it derives the rest. Sources: facts
// megatron-memory.md 3.1, 4.3, 10 and rules.md (version notes).
#include "framework/megatron_lm/flags.h"
#include "job/derive.h"
#include "job/refusal.h"

namespace plimsoll::job {

namespace {

void set_defaults(Job& job) {
  job.precision.params = job.precision.compute = DType::kFp32;
  job.optimizer.grad_reduce_in_fp32 = false;
  job.kernels.mask_in_dataloader = true;
  job.kernels.loss = LossKind::kUnfused;
  job.kernels.logits = DType::kFp32;
  job.moe.grouped_gemm = false;
  job.moe.dispatcher = DispatcherKind::kAllGather;
  job.model_keys.swiglu_ffn_rule = true;
}

// A model's name says nothing about precision, and Megatron-LM then trains in fp32 without a distributed optimizer,
// which nobody means.
constexpr UsualSetting kUsual[] = {{"bf16", "true"},
                                   {"use_distributed_optimizer", "true"},
                                   {"overlap_grad_reduce", "true"},
                                   {"overlap_param_gather", "true"},
                                   {"moe_grouped_gemm", "true", true}};

}  // namespace

Status require_megatron_batch(Job& /*job*/) { return refused("R005"); }

constinit const FrameworkFacts megatron_lm_facts = {
    .id = Framework::kMegatronLm,
    .name = "megatron-lm",
    .words = "megatron mlm",
    .set_defaults = set_defaults,
    .aliases = megatron_aliases,
    .is_megatron = true,
    .has_pipeline = true,
    .splits_model = true,
    .has_adapters = false,
    .shardings = kMegatronShardings,
    .usual = kUsual,
    .require_batch = require_megatron_batch,
    .derive_precision = train_in_half,
    .two_halves = kMegatronTwoHalves,
    .fp8_switch = "--fp8-format hybrid",
    .reduces_in_fp32 = true,
    .fuses_by_activation = true,
    .positions_bound_sequences = true,
    .moves_precision_aware_only = true,
    .refuses_idle_fp32_residual = true,
    .fused_loss = "native",
    .prover = Prover::kMegatron,
};

}  // namespace plimsoll::job
