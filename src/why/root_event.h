// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "why/findings.h"

namespace plimsoll::why {

// A loop that logs an exception and goes on has not failed by it. What other processes or the system say stays.
[[nodiscard]] bool went_on(const Findings& findings, const Event& event);

// The line that names the cause most directly, the first of equals; nullptr where none reports a failure.
[[nodiscard]] const Event* choose_root(const Findings& findings);

// An error in words that no reader knows is a failure where the log ends with it.
[[nodiscard]] const Event* last_words(const Findings& findings);

}  // namespace plimsoll::why
