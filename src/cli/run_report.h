// SPDX-License-Identifier: Apache-2.0
// What a run measured, beside what was predicted, for people.
#pragma once

#include <string>

#include "cli/console.h"
#include "live/record.h"

namespace plimsoll::cli {

// Groups ranks that hold the same, so that thousands fit a screen.
[[nodiscard]] std::string run_report(const live::Run& run, const live::Prediction* prediction, const Console& console);

}  // namespace plimsoll::cli
