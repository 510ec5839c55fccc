// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "base/result.h"
#include "document/node.h"

namespace plimsoll::job {

// The value of a Python literal: numbers, strings, True, None, lists, dotted names, calls with keywords.
//   [1, 2]  ->  a list;  LoRA(dim=8)  ->  {_target_: LoRA, dim: 8};  torch.bfloat16  ->  "torch.bfloat16"
[[nodiscard]] Result<document::Node> parse_python(std::string_view text);

}  // namespace plimsoll::job
