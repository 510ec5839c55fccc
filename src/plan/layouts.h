// SPDX-License-Identifier: Apache-2.0
// How the layers of a model may be dealt to pipeline * chunks stages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "plan/candidate.h"

namespace plimsoll::plan {

// What the ends of a model weigh beside a layer. An MTP depth is a layer and a loss of its own.
struct EndWeights {
  std::int64_t embedding = 1;
  std::int64_t loss = 1;
};

// Layers over the stages, as even as it goes with its ends counted, the larger stages last: "Ett|ttt|ttmL". Empty
// where a stage would have less than nothing, or a stage between the ends nothing at all.
[[nodiscard]] std::string balanced_layout(std::int64_t layers, std::int64_t mtp, std::int64_t stages,
                                          EndWeights ends = {});

// The written-out layout of a choice; empty for those that Megatron derives itself.
[[nodiscard]] std::string layout_text(LayoutChoice choice, const model::Architecture& model, std::int64_t stages);

// Layouts worth pricing: even and ends-counted ones where they divide, else balanced ones. None: no such split.
[[nodiscard]] std::vector<LayoutChoice> layouts_of(const job::Job& job, std::int64_t pipeline, std::int64_t chunks);

}  // namespace plimsoll::plan
