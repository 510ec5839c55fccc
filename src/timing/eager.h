// SPDX-License-Identifier: Apache-2.0
// Prices what the graph of a Hugging Face model launches: every product, attention call and memory-bound kernel by
// its own size, and the host's work for each operation.
#pragma once

#include "step/transformers/launches.h"
#include "timing/passes.h"

namespace plimsoll::timing {

// Whether a job's passes are priced from its graph: PyTorch modules as they are, whole layers on every rank.
[[nodiscard]] bool runs_eagerly(const job::Job& job);

[[nodiscard]] PassCost price_eager(const job::Job& job, const Prices& prices,
                                   const step::transformers::PartLaunches& part);

}  // namespace plimsoll::timing
