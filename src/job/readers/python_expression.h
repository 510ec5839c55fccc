// SPDX-License-Identifier: Apache-2.0
// The value of an expression of a configuration that is written in Python, worked out without running anything:
// literals, names that were assigned before, arithmetic, comparisons, a if b else c, subscripts, dict(a=1).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "document/node.h"

namespace plimsoll::job {

using PythonNames = std::map<std::string, document::Node, std::less<>>;

// A call that is not dict(...) or a conversion is a table with its name in _target_ and what has no keyword in _args_;
// a name that nothing assigned, a class say, is its own text. Nothing where the expression is more than that
// (comprehensions, lambdas, methods of values) or where copies of `names` take more than `budget` values.
[[nodiscard]] std::optional<document::Node> evaluate_python(std::string_view text, const PythonNames& names,
                                                            std::int64_t& budget);

// What `if` makes of a value; nothing where it is no literal.
[[nodiscard]] std::optional<bool> python_truth(const document::Node& value);

}  // namespace plimsoll::job
