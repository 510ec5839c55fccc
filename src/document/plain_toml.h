// SPDX-License-Identifier: Apache-2.0
// The part of TOML that the catalogues compiled into the program are written in, read some ten times as fast as all of
// TOML: a program that starts to answer one question reads 200 kB of rules first.
#pragma once

#include <optional>
#include <string_view>

#include "document/node.h"

namespace plimsoll::document {

// Tables and arrays of tables with simple names, and one key per line with a text without escapes, a number, a boolean,
// or a list or inline table of such. Nothing where there is more to it than that, a key given twice included:
// then parse_toml() has the answer, or the error. What is read is what parse_toml() reads, but for the lines of tables.
[[nodiscard]] std::optional<Node> parse_plain_toml(std::string_view text);

}  // namespace plimsoll::document
