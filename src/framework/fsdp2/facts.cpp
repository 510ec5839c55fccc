// SPDX-License-Identifier: Apache-2.0
// Transformers' modules, or plain PyTorch, under fully_shard. Sources: facts other-frameworks-memory.md 5.4, 6.3.
#include "framework/transformers/facts.h"
#include "job/derive.h"
#include "job/keys.h"

namespace plimsoll::job {

namespace {

void set_defaults(Job& job) {
  use_modules_of_transformers(job);
  job.sharding.kind = ShardingKind::kFsdp2;
  job.batch.micro_batch = 1;
}

// FSDP mixed precision: fp32 shards, 16-bit compute; accelerate also reduces in 16 bits (facts
// other-frameworks-memory.md 6.3).
void derive_precision(Job& job) {
  const auto amp = half_precision(job);
  if (!amp && !job.precision.load_dtype) return;
  const DType compute = amp.value_or(job.precision.load_dtype.value_or(DType::kFp32));
  use_precision(job, compute, compute);
  job.precision.autocast = false;
  const bool accelerate = job.sharding.units != FsdpUnits::kLayersAndRoot;
  if (!job.has("stored_dtype")) job.sharding.stored = amp ? DType::kFp32 : compute;
  if (!job.has("reduce_dtype")) job.sharding.reduce = amp && !accelerate ? DType::kFp32 : compute;
}

Status require_batch(Job& job) {
  warn(job, "micro_batch_size: not given; 1 is counted");
  return {};
}

// As accelerate wraps and synchronises.
constexpr UsualSetting kUsual[] = {{"bf16", "true"}, {"fsdp_units", "accelerate"}, {"sync_each_micro_batch", "false"}};

}  // namespace

constinit const FrameworkFacts fsdp2_facts = {
    .id = Framework::kFsdp2,
    .name = "fsdp2",
    .words = "fsdp",
    .set_defaults = set_defaults,
    .aliases = transformers_aliases,
    .runs_hub_models = true,
    .shardings = bit(ShardingKind::kFsdp1) | bit(ShardingKind::kFsdp2),
    .own_sharding = ShardingKind::kFsdp2,
    .assumed = Assumed::kForManyGpus,
    .usual = kUsual,
    .require_batch = require_batch,
    .seq_length_hint = kTrainerLengthHint,
    .derive_precision = derive_precision,
    .two_halves = kTrainerTwoHalves,
    .is_recorded = true,
    .prover = Prover::kFsdp,
};

}  // namespace plimsoll::job
