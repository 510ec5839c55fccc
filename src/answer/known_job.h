// SPDX-License-Identifier: Apache-2.0
// The job behind a log, given or recovered from the configuration that the log dumps, and what each fix
// would win on it: the same prices as plimsoll fit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "answer/input.h"
#include "lever/priced.h"
#include "why/fixes.h"

namespace plimsoll::answer {

struct KnownJob {
  job::Request request;
  job::Job job;
  memory::Answer answer;
  std::vector<lever::PricedChange> changes;
  std::string origin;  // "job.toml", "the arguments in run.log"
};

// From given files; a job that cannot be read is an error.
[[nodiscard]] Result<KnownJob> read_known_job(Input input, const lever::World& world);

struct Recovered {
  std::optional<KnownJob> job;
  std::string problem;  // why the arguments in the log make no job; "" where there are none, or not enough
};
// From Megatron's dump of its arguments.
[[nodiscard]] Recovered recover_job(const why::Findings& findings, const why::Diagnosis& diagnosis,
                                    const std::string& gpu, const lever::World& world);

// Replaces ranges by prices, drops what the job would not gain from, and adds what it would.
void price_fixes(const KnownJob& known, const why::Diagnosis& diagnosis, std::vector<why::Fix>& fixes);

struct Repair {
  std::string text;                  // a job file
  std::vector<std::string> applied;  // labels of the changes
  bool fits = false;
};
// The job with the first change that makes it fit, or with several from the top of the ladder.
[[nodiscard]] Result<Repair> repair_job(const KnownJob& known, const std::vector<why::Fix>& fixes);

}  // namespace plimsoll::answer
