// SPDX-License-Identifier: Apache-2.0
// A simulated run in time: what the trainer does and how full the servers are, as lines of text and as SVG.
#pragma once

#include <string>

#include "answer/rl.h"

namespace plimsoll::cli {

// Of the last steps; the run must have been simulated with a timeline.
[[nodiscard]] std::string timeline_text(const rl::Evaluation& evaluation, int width);
[[nodiscard]] std::string timeline_svg(const rl::Evaluation& evaluation);

}  // namespace plimsoll::cli
