// SPDX-License-Identifier: Apache-2.0
// The answer of plimsoll why for people: one screen, or everything with --full.
#pragma once

#include <string>

#include "answer/why.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string why_text(const answer::Why& answer, bool full, const Console& console);

}  // namespace plimsoll::cli
