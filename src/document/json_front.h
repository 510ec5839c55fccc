// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "document/node.h"

namespace plimsoll::document {

// The value that a text begins with; what follows it is not read. For one entry of a long file that is known to be
// good, such as those that are part of the program.
[[nodiscard]] Result<Node> parse_json_front(std::string_view text);

}  // namespace plimsoll::document
