// SPDX-License-Identifier: Apache-2.0
// One point of the search: the knobs that a plan may choose, as small numbers. A job is made of it by apply().
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "job/job.h"

namespace plimsoll::plan {

// Recomputation as a plan chooses it.
struct RecomputeChoice {
  std::string label;  // "mlp", "full", "block 5"; "none"
  job::RecomputeGranularity granularity = job::RecomputeGranularity::kNone;
  job::RecomputeMethod method = job::RecomputeMethod::kUniform;
  std::int64_t layers = 1;
  job::RecomputeModules modules;
};

// How layers are dealt to pipeline stages.
enum class LayoutChoice : std::uint8_t {
  kAsGiven,  // the user's own
  kEven,
  kEndsCount,  // embedding and loss count as a layer each
  kBalanced,   // written out: as even as it goes, embedding, loss and MTP counted
};

struct Candidate {
  std::int32_t tensor = 1;
  std::int32_t pipeline = 1;
  std::int32_t virtual_pipeline = 1;
  std::int32_t context = 1;
  std::int32_t expert = 1;
  std::int32_t expert_tensor = 1;
  std::int32_t micro_batch = 1;
  std::int16_t recompute = 0;  // number in Space::recompute
  LayoutChoice layout = LayoutChoice::kEven;
  job::CpCommType context_messages = job::CpCommType::kP2p;
  bool tensor_overlap = false;     // userbuffers: tp_comm_overlap
  bool optimizer_offload = false;  // moments and master weights on the host
  std::int16_t stage = 0;          // number in Space::stages: ZeRO stage or resharding, where the framework has it
};

using KeyValues = std::vector<std::pair<std::string, std::string>>;

}  // namespace plimsoll::plan
