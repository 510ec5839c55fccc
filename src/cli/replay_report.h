// SPDX-License-Identifier: Apache-2.0
// The answer of plimsoll replay for people.
#pragma once

#include <string>

#include "answer/replay.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string replay_report(const answer::Replay& answer, const Console& console);

}  // namespace plimsoll::cli
