// SPDX-License-Identifier: Apache-2.0
// A configuration that is a Python file of assignments (mmengine's, InternEvo's): what its names hold at the end,
// worked out without running it. Branches that the file itself decides are followed; imports, loops, functions and
// classes are passed over.
#pragma once

#include <string_view>

#include "document/node.h"

namespace plimsoll::job {

// Whether a text may be one: it assigns a dict(...) or {...} at its left edge, and every line there is an import,
// an assignment, a branch or a text.
[[nodiscard]] bool looks_like_python_config(std::string_view text);

// A table of the names in the order of their first assignment. A value that cannot be worked out is the text of its
// expression; one that a branch gives which nobody can decide says so.
[[nodiscard]] Result<document::Node> read_python_module(std::string_view text);

}  // namespace plimsoll::job
