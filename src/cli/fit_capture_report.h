// SPDX-License-Identifier: Apache-2.0
// plimsoll fit on captures of a step.
#pragma once

#include "cli/arguments.h"
#include "cli/console.h"
#include "cli/verb.h"

namespace plimsoll::cli {

[[nodiscard]] Result<ExitCode> fit_captures(const Arguments& arguments, const Console& console);

}  // namespace plimsoll::cli
