// SPDX-License-Identifier: Apache-2.0
// What plimsoll rl --observe answers, for people and as JSON.
#pragma once

#include <string>

#include "cli/console.h"
#include "rl/observe/observe.h"

namespace plimsoll::cli {

[[nodiscard]] std::string observation_text(const rl::Observation& observation, const Console& console);
[[nodiscard]] std::string observation_json(const rl::Observation& observation);

// 0: a bottleneck was named, or there is none; 1: the files do not say.
[[nodiscard]] int observation_exit_code(const rl::Observation& observation);

}  // namespace plimsoll::cli
