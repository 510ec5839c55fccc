// SPDX-License-Identifier: Apache-2.0
// The answer of plimsoll why for people: one screen, or everything with --full.
#pragma once

#include <string>

#include "cli/console.h"
#include "why/diagnosis.h"
#include "why/fixes.h"

namespace plimsoll::cli {

[[nodiscard]] std::string why_text(const why::Diagnosis& diagnosis, const why::Findings& findings,
                                   const std::vector<why::Fix>& fixes, bool full, const Console& console);

}  // namespace plimsoll::cli
