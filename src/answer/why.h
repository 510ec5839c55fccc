// SPDX-License-Identifier: Apache-2.0
// What killed a run: the logs, and beside them a snapshot and the job where they are known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "answer/known_job.h"
#include "answer/progress.h"
#include "answer/reconcile.h"
#include "why/diagnosis.h"
#include "why/fixes.h"
#include "why/next_evidence.h"
#include "why/ranks.h"
#include "why/words.h"

namespace plimsoll::answer {

struct WhyQuestion {
  std::vector<std::string> logs;  // files, folders, "-" for standard input
  std::optional<Input> job;       // else it is recovered from the arguments that the log shows
  std::string snapshot;           // of the same run; "" where there is none
  std::string gpu;                // where neither the log nor the job says
};

struct Why {
  why::Findings findings;
  why::Diagnosis diagnosis;
  std::vector<why::Fix> fixes;  // cheapest first, priced where the job is known
  std::optional<KnownJob> known;
  why::RankStory ranks;
  std::vector<RankFigures> figures;  // of the job against those of the log, rank by rank

  // A cause of memory was named.
  [[nodiscard]] bool found() const;
};

[[nodiscard]] Result<Why> why(const WhyQuestion& question, const lever::World& world, const Progress& progress = {});
[[nodiscard]] std::string to_json(const Why& answer);

}  // namespace plimsoll::answer
