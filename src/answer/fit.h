// SPDX-License-Identifier: Apache-2.0
// Does a job fit, where is the peak, how long is a step, what would change it; and the same for many values of a key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "answer/batching.h"
#include "answer/input.h"
#include "answer/progress.h"
#include "job/job.h"
#include "lever/priced.h"
#include "rules/rules.h"

namespace plimsoll::answer {

struct Fit {
  job::Job job;
  memory::Answer memory;
  memory::AskedRanks asked;
  std::vector<lever::PricedChange> changes;
  timing::StepTime time = {};
  std::optional<Batching> batching = {};          // where the job says how long its samples are
  std::vector<rules::Violation> violations = {};  // what the framework would say to the job

  // Fits, and the framework would not refuse it.
  [[nodiscard]] bool holds() const;
};

enum class Changes { kNone, kUsual };  // whether levers are priced, too

// A given rank need not be the worst, and a price is about the worst: with one, no changes are priced.
[[nodiscard]] Result<Fit> fit(const job::Request& request, const lever::World& world,
                              const memory::AskedRanks& asked = {}, Changes changes = Changes::kUsual);
// Adds the changes to an answer that was made without them.
void price_changes(const job::Request& request, const lever::World& world, Fit& fit);
[[nodiscard]] std::string to_json(const Fit& fit);

// The least that the job needs and its seconds, without a walk.
[[nodiscard]] Result<lever::Estimate> estimate(const job::Request& request, const lever::World& world);

// One point of a sweep: an answer, or why there is none.
struct SweepRow {
  job::Settings settings;
  Result<lever::Price> price;
};

struct Sweep {
  std::vector<SweepRow> rows;
  std::vector<std::string> warnings;  // of all points, each once

  [[nodiscard]] bool any_fits() const;
};

// A sweep whose every point is refused is an error; one that has answers shows the refusals among them.
[[nodiscard]] Result<Sweep> sweep(const job::Request& request, const std::vector<job::Settings>& points,
                                  const lever::World& world, const memory::AskedRanks& asked = {},
                                  const Progress& progress = {});
[[nodiscard]] std::string to_json(const Sweep& sweep);

}  // namespace plimsoll::answer
