// SPDX-License-Identifier: Apache-2.0
// Violated rules for people; fit shows them with the same words.
#pragma once

#include <string>

#include "answer/lint.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string lint_report(const answer::Lint& answer, const Console& console);

// One violation: id, severity, what is wrong, what the framework prints, the fix.
[[nodiscard]] std::string violation_lines(const rules::Violation& violation, job::Framework framework,
                                          const Console& console);

// The rules themselves: all that are asked for, or one with its examples.
[[nodiscard]] std::string rules_table(const answer::Rules& rules, const Console& console);
[[nodiscard]] std::string rule_report(const rules::Rule& rule, const Console& console);

}  // namespace plimsoll::cli
