// SPDX-License-Identifier: Apache-2.0
// DeepSpeed under Transformers' Trainer. Sources: facts other-frameworks-memory.md 5.4.
#include "framework/transformers/facts.h"
#include "framework/deepspeed/deepspeed.h"
#include "job/derive.h"
#include "job/refusal.h"

namespace plimsoll::job {

namespace {

void set_defaults(Job& job) {
  use_modules_of_transformers(job);
  job.sharding.kind = ShardingKind::kZero;
  job.batch.micro_batch = 1;
}

Status require_batch(Job& /*job*/) { return refused("R270"); }

}  // namespace

constinit const FrameworkFacts deepspeed_facts = {
    .id = Framework::kDeepSpeed,
    .name = "deepspeed",
    .set_defaults = set_defaults,
    .aliases = deepspeed_aliases,
    .runs_hub_models = true,
    .has_pipeline = true,
    .shardings = bit(ShardingKind::kZero),
    .own_sharding = ShardingKind::kZero,
    .usual = kTrainsInBf16,
    .derives_micro_batch = true,
    .require_batch = require_batch,
    .fill_in = resolve_auto,
    .seq_length_hint = kTrainerLengthHint,
    .derive_precision = train_in_half,
    .two_halves = "R271",
};

}  // namespace plimsoll::job
