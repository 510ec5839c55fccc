// SPDX-License-Identifier: Apache-2.0
// The --json answer of plimsoll why; the members are in docs/reference/json.md.
#pragma once

#include <string>

#include "why/diagnosis.h"
#include "why/fixes.h"

namespace plimsoll::cli {

[[nodiscard]] std::string why_json(const why::Diagnosis& diagnosis, const why::Findings& findings,
                                   const std::vector<why::Fix>& fixes);

}  // namespace plimsoll::cli
