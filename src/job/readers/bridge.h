// SPDX-License-Identifier: Apache-2.0
// What Bridge's two forms, YAML and cfg.x = y lines, have in common: the tree of its ConfigContainer.
#pragma once

#include "job/draft.h"

namespace plimsoll::job {

// Reads the sections (model, train, optimizer, ddp, mixed_precision, ...) of a Bridge configuration.
[[nodiscard]] Status read_bridge_tree(const document::Node& root, Draft& draft);

// The value of a Python literal: numbers, strings, True, None, lists, dotted names, calls with keywords.
//   [1, 2]  ->  a list;  LoRA(dim=8)  ->  {_target_: LoRA, dim: 8};  torch.bfloat16  ->  "torch.bfloat16"
[[nodiscard]] Result<document::Node> parse_python(std::string_view text);

}  // namespace plimsoll::job
