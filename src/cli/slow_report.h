// SPDX-License-Identifier: Apache-2.0
// Why a run is slow, for people.
#pragma once

#include <string>

#include "answer/slow.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string slow_report(const answer::Slow& slow, const Console& console);

}  // namespace plimsoll::cli
