// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

[[nodiscard]] const std::vector<Alias>& torchtitan_aliases();

// torchtitan's sections as a tree, whatever file they stand in.
[[nodiscard]] Status read_torchtitan_tree(const document::Node& root, Draft& draft);

}  // namespace plimsoll::job
