// SPDX-License-Identifier: Apache-2.0
// What the readers of Megatron-LM's forms share.
#pragma once

#include <string_view>

#include "job/draft.h"

namespace plimsoll::job {

// Why a training program (pretrain_t5.py) cannot be described here; empty where it can.
[[nodiscard]] std::string_view why_not_modelled(std::string_view program);

// Adds "--foo-bar" or "foo_bar" under its key spelling.
void assign_flag(Draft& draft, std::string_view flag, document::Node value);

}  // namespace plimsoll::job
