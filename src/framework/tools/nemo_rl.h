// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

// A tree with the files of its `defaults:` in it, interpolated.
[[nodiscard]] Status read_nemo_rl_tree(const document::Node& root, Draft& draft);

}  // namespace plimsoll::job
