// SPDX-License-Identifier: Apache-2.0
// torchtitan with the defaults of its TOML form (facts other-frameworks-memory.md 6.4).
#include "framework/transformers/facts.h"
#include "framework/torchtitan/torchtitan.h"

namespace plimsoll::job {

namespace {

void set_defaults(Job& job) {
  use_modules_of_transformers(job);
  job.kernels.implementation = Implementation::kTorchtitan;
  job.sharding.kind = ShardingKind::kFsdp2;
  job.sharding.units = FsdpUnits::kTorchtitan;
  job.batch.seq_length = 2048;
  job.recompute.granularity = RecomputeGranularity::kFull;
  job.recompute.every_nth_layer = 2;
  job.moe.grouped_gemm = true;
}

// It writes its own models, of these families.
constexpr std::string_view kModels[] = {"llama",       "llama4_text", "qwen3",   "qwen3_moe",
                                        "deepseek_v2", "deepseek_v3", "gpt_oss", "gpt"};

}  // namespace

// Its dtypes are keys of their own, and its default micro-batch, 8, is documented in its own files.
constinit const FrameworkFacts torchtitan_facts = {
    .id = Framework::kTorchtitan,
    .name = "torchtitan",
    .set_defaults = set_defaults,
    .aliases = torchtitan_aliases,
    .models = kModels,
    .has_pipeline = true,
    .splits_model = true,
    .has_adapters = false,
    .expert_split_rule = "R291",
    .recomputes_every_nth = true,
    .shardings = bit(ShardingKind::kFsdp2),
    .own_sharding = ShardingKind::kFsdp2,
    .two_halves = kTrainerTwoHalves,
};

}  // namespace plimsoll::job
