// SPDX-License-Identifier: Apache-2.0
// Violated rules for people and as JSON; fit shows them with the same words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/json_writer.h"
#include "job/job.h"
#include "rules/rules.h"

namespace plimsoll::cli {

// What lint found out about one job.
struct LintAnswer {
  job::Job job;
  std::vector<rules::Violation> violations;
  std::size_t checked = 0;               // rules of the framework that a job can violate
  std::vector<std::string> not_checked;  // "rules about the GPU: it is not known"
};

[[nodiscard]] bool has_error(const std::vector<rules::Violation>& violations);

[[nodiscard]] std::string lint_report(const LintAnswer& answer, const Console& console);
[[nodiscard]] std::string lint_json(const LintAnswer& answer);

// One violation: id, severity, what is wrong, what the framework prints, the fix.
[[nodiscard]] std::string violation_lines(const rules::Violation& violation, job::Framework framework,
                                          const Console& console);
// "violations": [...] as a member of the object that is open.
void write_violations(JsonWriter& json, const std::vector<rules::Violation>& violations);

// The rules themselves: all that are asked for, or one with its examples.
using Rules = std::vector<const rules::Rule*>;
[[nodiscard]] std::string rules_table(const Rules& rules, const Console& console);
[[nodiscard]] std::string rules_json(const Rules& rules);
[[nodiscard]] std::string rule_report(const rules::Rule& rule, const Console& console);

}  // namespace plimsoll::cli
