// SPDX-License-Identifier: Apache-2.0
// What a plan may choose from: every value of every knob that the model, the cluster and the user's pins leave open.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/read.h"
#include "plan/candidate.h"
#include "plan/variant.h"

namespace plimsoll::plan {

struct Space {
  std::vector<std::int64_t> tensor;
  std::vector<std::int64_t> pipeline;
  std::vector<std::int64_t> virtual_pipeline;
  std::vector<std::int64_t> context;
  std::vector<std::int64_t> expert;
  std::vector<std::int64_t> expert_tensor;        // 0: as tensor
  std::vector<std::int64_t> micro_batch;          // ascending
  std::vector<job::CpCommType> context_messages;  // tried where context > 1
  std::vector<bool> sequence_parallel;            // tried where tensor > 1
  std::vector<bool> tensor_overlap;               // tried where tensor > 1, with sequence parallelism
  std::vector<bool> expert_overlap;               // tried where expert > 1
  std::vector<Variant> states;
  std::vector<Variant> activations;
  bool keeps_layout = false;            // the user gave one
  bool keeps_context_messages = false;  // one type per layer
  bool writes_layouts = true;           // a layout can be written out
  bool counts_ends = true;              // the two account_for switches can be set
  // Sequences of an optimizer step that are dealt to the ranks and filled up with copies, as post-training does, so
  // that any number of ranks divides them; 0: the batch of the job, which has to divide.
  std::int64_t batch_to_fill = 0;
};

struct SpaceOptions {
  bool changes_numbers = false;    // also what rounds differently
  bool coarse = false;             // few values of each knob: a first look, within some percent of the best
  std::int64_t batch_to_fill = 0;  // Space::batch_to_fill
  // Whether whoever launches the job can pass these settings on; none: it passes everything.
  std::function<bool(const job::Settings&)> can_say = {};
};

// Pinned keys (canonical names) keep the job's own value.
[[nodiscard]] Space make_space(const job::Job& job, const Pins& pinned, const SpaceOptions& options = {});

// Calls visit for each split that divides the GPUs: everything but activations and micro-batch.
void for_each_split(const Space& space, const job::Job& job, const std::function<void(const Candidate&)>& visit);

// Calls visit for each point of a split, micro-batches ascending, for each all ways to keep activations. What does the
// same as another point is left out.
void for_each_point(const Space& space, const job::Job& job, const Candidate& split,
                    const std::function<void(const Candidate&)>& visit);

// Puts the candidate's knobs into the job, which complete() then checks.
void apply(const Space& space, const Candidate& candidate, job::Job& job);
// The same, for a job that has the candidate's state already.
void apply_within_state(const Space& space, const Candidate& candidate, job::Job& job);

// The candidate as keys and values of a job file.
[[nodiscard]] KeyValues settings_of(const Space& space, const Candidate& candidate, const job::Job& job);
// What the framework counts as given, which decides some of what it refuses. The same for candidates that differ in
// sizes and switches only.
[[nodiscard]] Pins given_of(const Space& space, const Candidate& candidate, const job::Job& job);

}  // namespace plimsoll::plan
