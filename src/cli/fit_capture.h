// SPDX-License-Identifier: Apache-2.0
// plimsoll fit on captures of a step.
#pragma once

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/verb.h"

namespace plimsoll::cli {

// Whether the operands are captures: all of them, or none.
[[nodiscard]] Result<bool> names_captures(const Arguments& arguments);
[[nodiscard]] Result<ExitCode> fit_captures(const Arguments& arguments, const Console& console);

}  // namespace plimsoll::cli
