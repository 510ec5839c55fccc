// SPDX-License-Identifier: Apache-2.0
// Transformers' Trainer, or a plain loop over its modules, on one GPU or under DDP. Sources: facts
// other-frameworks-memory.md 1, 2.10, 5.4.
#include "framework/transformers/facts.h"

#include "job/derive.h"
#include "job/keys.h"

namespace plimsoll::job {

namespace {

void set_defaults(Job& job) { use_modules_of_transformers(job); }

// Load dtype and autocast (facts other-frameworks-memory.md 1 and 2.6): Transformers 5 loads what the
// checkpoint holds. bf16=True runs the forward under autocast, which has no weights to cast where they are 16-bit
// already, but still runs norms, powers and sums in fp32.
void derive_precision(Job& job) {
  Precision& precision = job.precision;
  if (!precision.load_dtype)
    warn(job,
         "load_dtype: not given; bf16 weights are assumed, as Transformers 5 loads what the checkpoint holds (give "
         "--load-dtype fp32 for Transformers 4 or a fresh model)");
  const DType loaded = precision.load_dtype.value_or(DType::kBf16);
  const auto amp = half_precision(job);
  use_precision(job, loaded, loaded == DType::kFp32 && amp ? *amp : loaded);
  if (!job.has("autocast")) precision.autocast = amp.has_value();
}

Status require_batch(Job& job) {
  warn(job, "micro_batch_size: not given; Trainer's default, 8, is counted");
  return {};
}

}  // namespace

void use_modules_of_transformers(Job& job) {
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

constinit const FrameworkFacts transformers_facts = {
    .id = Framework::kTransformers,
    .name = "transformers",
    .words = "hf trl huggingface",
    .set_defaults = set_defaults,
    .aliases = transformers_aliases,
    .runs_hub_models = true,
    .shardings = bit(ShardingKind::kZero) | bit(ShardingKind::kFsdp1) | bit(ShardingKind::kFsdp2),
    .drives_others = true,
    .replicates = true,
    // Trainer.train() begins with accelerator.free_memory() (Transformers 5.17; seen in recorded histories).
    .empties_cache = true,
    .assumed = Assumed::kForOneGpu,
    .usual = kTrainsInBf16,
    .needs_gpu_count = false,
    .require_batch = require_batch,
    .seq_length_hint = kTrainerLengthHint,
    .derive_precision = derive_precision,
    .two_halves = kTrainerTwoHalves,
    .is_recorded = true,
    .prover = Prover::kTrainer,
};

}  // namespace plimsoll::job
