// SPDX-License-Identifier: Apache-2.0
// Megatron-Bridge's recipes: bf16_mixed, distributed optimizer with both overlaps, and the environment of its launcher.
// Sources: facts megatron-memory.md 3.1, 4.3, 10 and rules.md (version notes).
#include "framework/megatron_bridge/bridge.h"
#include "framework/megatron_lm/flags.h"
#include "job/derive.h"

namespace plimsoll::job {

namespace {

void set_defaults(Job& job) {
  job.asked.bf16 = true;
  job.optimizer.grad_reduce_in_fp32 = true;
  job.optimizer.distributed = true;
  job.optimizer.overlap_grad_reduce = job.optimizer.overlap_param_gather = true;
  job.asked.loss_fusion = true;
  job.kernels.loss = LossKind::kNativeFused;
  job.moe.permute_fusion = true;
  job.pad_vocab = false;
  job.environment = {{"NCCL_GRAPH_REGISTER", "0"},
                     {"NCCL_NVLS_ENABLE", "0"},
                     {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"},
                     {"TORCH_NCCL_AVOID_RECORD_STREAMS", "1"},
                     {"TORCH_NCCL_HIGH_PRIORITY", "1"}};
}

}  // namespace

constinit const FrameworkFacts megatron_bridge_facts = {
    .id = Framework::kMegatronBridge,
    .name = "megatron-bridge",
    .words = "bridge",
    .set_defaults = set_defaults,
    .aliases = bridge_aliases,
    .is_megatron = true,
    .has_pipeline = true,
    .splits_model = true,
    .shardings = kMegatronShardings,
    .assumed = Assumed::kForPlans,
    .require_batch = require_megatron_batch,
    .derive_precision = train_in_half,
    .two_halves = kMegatronTwoHalves,
    .hides_messages_only_with_engine = true,
    .prover = Prover::kMegatron,
};

}  // namespace plimsoll::job
