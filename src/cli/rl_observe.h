// SPDX-License-Identifier: Apache-2.0
// What plimsoll rl --observe answers, for people.
#pragma once

#include <string>

#include "answer/rl.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string observation_text(const rl::Observation& observation, const Console& console);

}  // namespace plimsoll::cli
