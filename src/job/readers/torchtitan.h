// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

// torchtitan's sections as a tree, whatever file they stand in.
[[nodiscard]] Status read_torchtitan_tree(const document::Node& root, Draft& draft);

// Functions of Python that return a Trainer.Config.
[[nodiscard]] bool is_torchtitan_registry(std::string_view text);

}  // namespace plimsoll::job
