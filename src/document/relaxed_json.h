// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "document/node.h"

namespace plimsoll::document {

// JSON with comments, trailing commas and Infinity, as people write configurations by hand.
[[nodiscard]] Result<Node> parse_relaxed_json(std::string_view text);

}  // namespace plimsoll::document
