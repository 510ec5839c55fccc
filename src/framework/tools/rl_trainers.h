// SPDX-License-Identifier: Apache-2.0
// The supervised trainers of RL frameworks.
#pragma once

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

[[nodiscard]] Status read_prime_rl_tree(const document::Node& root, Draft& draft);
[[nodiscard]] Status read_verl_sft_tree(const document::Node& root, Draft& draft);

}  // namespace plimsoll::job
