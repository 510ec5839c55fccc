// SPDX-License-Identifier: Apache-2.0
// The pipeline in time: when every pass of every rank starts and ends, given what each takes. The order of a
// rank's passes is that of step/schedule; a pass waits for its rank and for the message it needs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::timing {

struct PipelineTimes {
  std::int64_t stages = 1;
  std::int64_t chunks = 1;
  std::int64_t micro_batches = 1;
  std::int64_t group = 1;  // micro-batches per group of virtual passes
  bool gpipe = false;
  bool extra_warmup = false;
  double hop = 0;               // seconds of a message between stages
  bool overlapped = true;       // a rank computes while it sends and receives
  std::vector<double> forward;  // [rank * chunks + chunk]
  std::vector<double> backward;
};

// Seconds from the first forward to the last backward, by running the schedule.
[[nodiscard]] double simulate(const PipelineTimes& times);

// When a pass runs on its rank.
struct PassSpan {
  double start = 0;  // seconds from the first forward
  double end = 0;
  std::int32_t chunk = 0;
  std::int32_t micro_batch = 0;
  bool forward = true;
};

// Every pass of every rank, in the order of the rank. Empty where there are more than `most`.
[[nodiscard]] std::vector<std::vector<PassSpan>> schedule(const PipelineTimes& times, std::int64_t most);

// The same in closed form: exact where all ranks and chunks take the same and messages nothing; for uneven
// stages the slowest rank sets the pace and the others are passed once, which the schedule reaches or exceeds.
[[nodiscard]] double closed_form(const PipelineTimes& times);

// Seconds that rank `rank` computes.
[[nodiscard]] double busy(const PipelineTimes& times, std::int64_t rank);
// The rank that computes longest.
[[nodiscard]] std::int64_t slowest(const PipelineTimes& times);

}  // namespace plimsoll::timing
