// SPDX-License-Identifier: Apache-2.0
// The answer of plan --from, for people and for programs.
#pragma once

#include <string>

#include "cli/console.h"
#include "plan/ladder.h"

namespace plimsoll::cli {

[[nodiscard]] std::string ladder_report(const plan::Ladder& ladder, const Console& console);
[[nodiscard]] std::string ladder_json(const plan::Ladder& ladder);

}  // namespace plimsoll::cli
