// SPDX-License-Identifier: Apache-2.0
// Why a run is slow: its measured steps against the prediction for its job, what its log says against it, and what
// changed within it or since another run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "answer/fit.h"
#include "why/pace.h"
#include "why/tempo.h"

namespace plimsoll::answer {

struct SlowQuestion {
  std::string log;
  std::string before;        // the log of a run that was faster; "" for none
  std::optional<Input> job;  // what ran
};

// Something that takes time it need not take, with the line or figure that shows it.
struct Suspect {
  std::string id;  // "stragglers"
  std::string says;
  std::string fix;
  double seconds = 0;     // of each step, as far as it can be said; 0: not known
  std::int64_t line = 0;  // of the log; 0: a figure over many lines
};

struct MeasuredRun {
  why::Pace pace;
  std::optional<why::Tempo> tempo;  // nothing: too few steps
  bool is_relative = false;         // only rates without the job's sizes: seconds are in a unit of their own
};

struct Slow {
  MeasuredRun run;
  std::optional<MeasuredRun> before;
  std::optional<Fit> fit;                   // of the job
  std::vector<Suspect> suspects;            // what takes most first
  double unexplained = 0;                   // seconds of a step above the prediction that no suspect accounts for
  std::vector<lever::PricedChange> faster;  // levers that fit and save time, best first

  // How much longer a step takes than predicted, as a share; nothing without a job or without seconds.
  [[nodiscard]] std::optional<double> gap() const;
  // The measured step lies above the interval of the prediction, or something is against it.
  [[nodiscard]] bool is_slow() const;
};

[[nodiscard]] Result<Slow> why_slow(const SlowQuestion& question, const lever::World& world);
[[nodiscard]] std::string to_json(const Slow& slow);

}  // namespace plimsoll::answer
