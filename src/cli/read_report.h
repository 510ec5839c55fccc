// SPDX-License-Identifier: Apache-2.0
// What was understood of a job, for people.
#pragma once

#include <string>

#include "answer/read.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string read_report(const answer::Understood& understood, const Console& console);

}  // namespace plimsoll::cli
