// SPDX-License-Identifier: Apache-2.0
// The answer of plan --from, for people.
#pragma once

#include <string>

#include "answer/plan.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string ladder_report(const plan::Ladder& ladder, const Console& console);

}  // namespace plimsoll::cli
