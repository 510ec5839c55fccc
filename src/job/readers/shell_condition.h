// SPDX-License-Identifier: Apache-2.0
// [ ... ] and [[ ... ]]: true, false, or not decided by the script.
#pragma once

#include <vector>

#include "job/readers/shell_syntax.h"
#include "job/readers/shell_variables.h"

namespace plimsoll::job {

enum class Truth { kFalse, kTrue, kUnknown };

[[nodiscard]] constexpr Truth operator!(Truth truth) {
  return truth == Truth::kUnknown ? truth : truth == Truth::kTrue ? Truth::kFalse : Truth::kTrue;
}

// `words` are between the brackets. Files are never looked for: a question about one is not decided.
[[nodiscard]] Result<Truth> evaluate_condition(const std::vector<RawWord>& words, bool is_double,
                                               ShellVariables& variables);

}  // namespace plimsoll::job
