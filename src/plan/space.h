// SPDX-License-Identifier: Apache-2.0
// What a plan may choose from: every value of every knob that the model, the cluster and the user's pins leave open.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "job/job.h"
#include "plan/candidate.h"

namespace plimsoll::plan {

struct Space {
  std::vector<std::int64_t> tensor;
  std::vector<std::int64_t> pipeline;
  std::vector<std::int64_t> virtual_pipeline;
  std::vector<std::int64_t> context;
  std::vector<std::int64_t> expert;
  std::vector<std::int64_t> expert_tensor;        // 0: as tensor
  std::vector<std::int64_t> micro_batch;          // ascending
  std::vector<RecomputeChoice> recompute;         // from what keeps most to what keeps least
  std::vector<job::CpCommType> context_messages;  // tried where context > 1
  std::vector<bool> tensor_overlap;               // tried where tensor > 1
  std::vector<bool> optimizer_offload;
  bool keeps_layout = false;         // the user gave one
  std::vector<std::int64_t> stages;  // ZeRO stages; {-1}: the framework has none to choose
};

// Pinned keys (canonical names) keep the job's own value.
[[nodiscard]] Space make_space(const job::Job& job, const std::set<std::string, std::less<>>& pinned);

// Parallel splits: everything but micro-batch, recomputation and stage. Calls visit for each that divides the GPUs.
void for_each_split(const Space& space, const job::Job& job, const std::function<void(const Candidate&)>& visit);

// Layers over pipeline * chunks stages, embedding, loss and MTP counted as a layer each: "Ett|ttt|ttmL".
[[nodiscard]] std::string balanced_layout(std::int64_t layers, std::int64_t mtp, std::int64_t stages);

// Puts the candidate's knobs into the job, which complete() then checks.
void apply(const Space& space, const Candidate& candidate, job::Job& job);

// The keys that apply() sets, for Job::given.
[[nodiscard]] const std::vector<std::string>& chosen_keys();

// The candidate as keys and values of a job file.
[[nodiscard]] KeyValues settings_of(const Space& space, const Candidate& candidate, const job::Job& job);

}  // namespace plimsoll::plan
