// SPDX-License-Identifier: Apache-2.0
// Fixed, padded and packed samples side by side.
#pragma once

#include <string>

#include "answer/batching.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string batching_report(const answer::Batching& batching, const Console& console);

}  // namespace plimsoll::cli
