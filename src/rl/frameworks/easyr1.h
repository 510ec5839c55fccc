// SPDX-License-Identifier: Apache-2.0
// EasyR1: verl with a configuration of its own ("worker" instead of "actor_rollout_ref").
#pragma once

#include "rl/frameworks/items.h"

namespace plimsoll::rl {

// Whether a text is a file or script of it.
[[nodiscard]] bool is_easyr1(std::string_view text);

// Its names as verl has them; nothing where there is no `worker`.
void take_easyr1_names(Values& values);

}  // namespace plimsoll::rl
