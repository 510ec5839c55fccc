// SPDX-License-Identifier: Apache-2.0
// The changes that people try first when a job is too large, each priced by the full answer of the job
// that has it: by how much would it move the worst rank?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/request.h"
#include "memory/answer.h"

namespace plimsoll::cli {

using job::Settings;

struct Change {
  std::string label;  // "recompute mlp"
  Settings settings;
};

// Changes that make sense for this job; whether the framework allows them is found out by trying.
[[nodiscard]] std::vector<Change> usual_changes(const job::Job& job);

// A divisor of the job's micro-batch, with as many sequences in a step as before.
[[nodiscard]] Change with_micro_batch(const job::Job& job, std::int64_t size);

// A parallel size of the job twice as large, likewise: "tp 8".
[[nodiscard]] Change with_doubled_size(const job::Job& job, std::string_view label, std::string_view key,
                                       std::int64_t size);

// Selective recompute of one more module of Megatron, and whether one is recomputed so.
[[nodiscard]] Change with_recompute(const job::Job& job, const std::string& module);
[[nodiscard]] bool recomputes(const job::Job& job, std::string_view module);

struct PricedChange {
  Change change;
  std::int64_t worst_rank = 0;  // pipeline rank of the changed job
  std::int64_t device_used = 0;
  std::int64_t difference = 0;  // to the device memory of the job's own worst rank; negative: less
  bool fits = false;
  std::optional<double> slower;  // share of time more per token; negative: faster
};

// Changes that the framework refuses are left out. `answer` must hold the worst rank of `job`.
[[nodiscard]] std::vector<PricedChange> price_changes(const job::Request& request, const job::Job& job,
                                                      const memory::Answer& answer);

// The same for changes of the caller's choice.
[[nodiscard]] std::vector<PricedChange> price_these(const job::Request& request, const job::Job& job,
                                                    const memory::Answer& answer, std::vector<Change> changes);

// "--recompute-granularity selective --recompute-modules core_attn,mlp"
[[nodiscard]] std::string as_flags(const Settings& settings);

}  // namespace plimsoll::cli
