// SPDX-License-Identifier: Apache-2.0
// What padding and packing make of a data set's samples: the same step with every sample padded to seq_length, with
// every micro-batch padded to its longest, and with sequences filled with whole samples. Needs the lengths, which no
// training configuration holds: keys sample_* of the job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "job/request.h"
#include "lever/world.h"

namespace plimsoll::answer {

struct Batching {
  struct Samples {
    double mean = 0;  // tokens, after the cut at seq_length
    double median = 0;
    double p95 = 0;
    std::int64_t longest = 0;
    double cut_share = 0;  // of samples that seq_length cuts
  };
  struct Row {
    std::string name;              // "fixed", "padded", "packed"
    std::string refused;           // why the framework does not take it; the rest is 0 then
    std::int64_t device_used = 0;  // where a micro-batch has the longest samples
    std::int64_t usual = 0;        // in a micro-batch of the usual length
    bool fits = false;             // with the longest
    double samples = 0;            // in a sequence
    double tokens = 0;             // that are computed for a sequence, on average
    double real_share = 0;         // of them that are samples'
    double seconds = 0;            // of a step
    double tokens_per_second = 0;  // samples' own, per GPU
    double times_as_fast = 0;      // against `fixed`
  };
  Samples samples;
  bool waits_each_micro_batch = false;  // ranks wait for the longest batch of all at each, not once per step
  bool within_samples = false;          // packed: attention ends where a sample ends
  std::vector<Row> rows;
};

// Nothing where the job says nothing of its samples.
[[nodiscard]] Result<std::optional<Batching>> batching(const job::Request& request, const job::Job& job,
                                                       const lever::World& world);

}  // namespace plimsoll::answer
