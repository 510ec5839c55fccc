// SPDX-License-Identifier: Apache-2.0
// A choice that takes several keys together: how activations are kept (recomputed, moved to the host), how the state of
// the model is kept (sharded, offloaded, in which numbers). It is defined by what a job file would say; the parts of a
// job that those keys change are kept beside them, so that a search copies instead of reading keys.
#pragma once

#include <string>
#include <vector>

#include "job/job.h"
#include "plan/candidate.h"

namespace plimsoll::plan {

struct Variant {
  std::string label;   // "mlp", "block 4", "optimizer on the host"; "none"
  KeyValues settings;  // empty: as the job has it
  // Of an activation variant.
  job::Recompute recompute;
  job::Offload offload;
  // Of a state variant.
  job::Optimizer optimizer;
  job::Sharding sharding;
  job::Precision precision;
  job::Asked asked;
};

using Pins = NameSet;

// From what keeps most to what keeps least. Keys of these variants that are pinned keep the job's value.
[[nodiscard]] std::vector<Variant> activation_variants(const job::Job& job, const Pins& pinned);
// `changes_numbers`: also those that round differently (gradients in bf16, weights gathered in FP8).
[[nodiscard]] std::vector<Variant> state_variants(const job::Job& job, const Pins& pinned, bool changes_numbers);

// The job's own way, which sets nothing.
[[nodiscard]] Variant as_given(const job::Job& job);

// All keys that a variant of either kind may set.
[[nodiscard]] const std::vector<std::string>& activation_keys();

}  // namespace plimsoll::plan
