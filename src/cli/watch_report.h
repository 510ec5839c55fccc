// SPDX-License-Identifier: Apache-2.0
// What is seen of a run now: a screen for a terminal, lines for everything else.
#pragma once

#include <string>

#include "cli/console.h"
#include "live/watch.h"

namespace plimsoll::cli {

[[nodiscard]] std::string watch_screen(const live::View& view, const Console& console);
[[nodiscard]] std::string watch_lines(const live::View& view);

}  // namespace plimsoll::cli
