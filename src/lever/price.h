// SPDX-License-Identifier: Apache-2.0
// The price of a job in bytes and seconds: the one place where `fit`, its table of changes, sweeps, the ladder, fixes
// and plans get their numbers from.
#pragma once

#include <optional>

#include "base/result.h"
#include "job/request.h"
#include "lever/world.h"
#include "memory/answer.h"
#include "timing/step_time.h"

namespace plimsoll::lever {

struct Price {
  memory::Answer memory;
  timing::StepTime time;

  [[nodiscard]] const memory::RankAnswer& worst() const { return memory.ranks[memory.worst]; }
  [[nodiscard]] bool fits() const { return memory.fits; }
};

[[nodiscard]] Result<Price> price(const job::Job& job, const World& world, const memory::AskedRanks& asked = {});
// The seconds alone: a hundred times quicker than the memory.
[[nodiscard]] Result<timing::StepTime> time_of(const job::Job& job, const World& world);
// Both together, where they were found apart: the walks' answer and time_of(job, world).
[[nodiscard]] Result<Price> price_of(Result<memory::Answer> answer, Result<timing::StepTime> seconds,
                                     const job::Job& job, const World& world);

// Both in closed form, without the walk: what a loop over thousands of what-ifs asks. The bytes are the least that the
// job needs, exact but for the allocator.
struct Estimate {
  memory::Least memory;
  timing::StepTime time;
};
[[nodiscard]] Result<Estimate> estimate(const job::Job& job, const World& world);

// How much longer a token takes, as a share: 0.05 is 5 % slower, negative is faster. Per token, because a change of
// data parallelism may change the tokens of a step. Nothing where one of the two times is not known.
[[nodiscard]] std::optional<double> slower(const timing::StepTime& before, const timing::StepTime& after);

}  // namespace plimsoll::lever
