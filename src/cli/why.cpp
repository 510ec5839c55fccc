// SPDX-License-Identifier: Apache-2.0
// plimsoll why: what killed the run, the evidence, and what to change first.
#include <fmt/format.h>

#include "cli/verb.h"
#include "cli/why_json.h"
#include "why/read.h"

namespace plimsoll::cli {

namespace {

Result<ExitCode> run(const Arguments& arguments, const Console& console) {
  PLIMSOLL_TRY(paths, why::log_files(arguments.operands));
  why::Collector collector;
  for (const std::string& path : paths) PLIMSOLL_TRY_STATUS(why::read_log(path, collector));
  const why::Findings findings = collector.take();
  const why::Diagnosis diagnosis = why::diagnose(findings);
  console.print(why_json(diagnosis, findings, {}));
  return diagnosis.cause == why::Cause::kNotMemory ? ExitCode::kNo : ExitCode::kYes;
}

}  // namespace

extern const Verb kWhy;
const Verb kWhy = {
    .name = "why",
    .summary = "what killed a run, the evidence, and what to change first",
    .operands = "LOG...",
    .most_operands = -1,
    .details = "",
    .flags = {},
    .examples = {},
    .run = run,
};

}  // namespace plimsoll::cli
