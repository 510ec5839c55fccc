// SPDX-License-Identifier: Apache-2.0
// One point of the search: the knobs that a plan may choose, as small numbers. A job is made of it by apply().
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "job/job.h"

namespace plimsoll::plan {

// How layers are dealt to pipeline stages.
enum class LayoutChoice : std::uint8_t {
  kAsGiven,  // the user's own
  kEven,
  kEndsCount,   // embedding and loss count as a layer each: Megatron's two account_for switches
  kBalanced,    // written out: as even as it goes, embedding and every loss counted
  kLossCounts,  // written out: every loss counted, the embedding not
};

struct Candidate {
  // A split: what fixes the weights and the optimizer of every rank.
  std::int32_t tensor = 1;
  std::int32_t pipeline = 1;
  std::int32_t virtual_pipeline = 1;
  std::int32_t context = 1;
  std::int32_t expert = 1;
  std::int32_t expert_tensor = 1;
  LayoutChoice layout = LayoutChoice::kEven;
  job::CpCommType context_messages = job::CpCommType::kP2p;
  bool sequence_parallel = true;  // acts with tensor parallelism only
  bool tensor_overlap = false;    // userbuffers: tp_comm_overlap
  bool expert_overlap = false;    // overlap_moe_expert_parallel_comm
  std::int16_t state = 0;         // number in Space::states
  // The rest of a point.
  std::int16_t activations = 0;  // number in Space::activations
  std::int32_t micro_batch = 1;

  [[nodiscard]] bool writes_layout() const {
    return layout == LayoutChoice::kBalanced || layout == LayoutChoice::kLossCounts;
  }
  [[nodiscard]] auto key() const {
    return std::tie(tensor, pipeline, context, virtual_pipeline, expert, expert_tensor, micro_batch, activations, state,
                    layout, context_messages, sequence_parallel, tensor_overlap, expert_overlap);
  }
};

// Whether every rank of two candidates holds the same layers.
[[nodiscard]] inline bool same_layout(const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& c) {
    return std::tie(c.tensor, c.pipeline, c.virtual_pipeline, c.context, c.expert, c.expert_tensor, c.layout);
  };
  return key(a) == key(b);
}

using KeyValues = std::vector<std::pair<std::string, std::string>>;

}  // namespace plimsoll::plan
