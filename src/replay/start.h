// SPDX-License-Identifier: Apache-2.0
// The segments and blocks that were there when a recording began, found by undoing its driver calls from the final
// segments (facts snapshot-format.md 6).
#pragma once

#include "replay/history.h"

namespace plimsoll::replay {

// Fills History::start and the unknown block sizes of History::initial.
void find_start(History& history);

}  // namespace plimsoll::replay
