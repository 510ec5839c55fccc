// SPDX-License-Identifier: Apache-2.0
// Values as text of each format. Every value may be hostile: what a quote lets through is data in its format,
// never syntax.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "document/node.h"
#include "emit/emit.h"

namespace plimsoll::emit {

// One word of a POSIX shell; plain where it needs no quotes.
[[nodiscard]] std::string shell_word(std::string_view text);

// Whether a shell can export a variable of this name.
[[nodiscard]] bool is_variable_name(std::string_view text);

// A double-quoted string of JSON, TOML and YAML alike.
[[nodiscard]] std::string quoted(std::string_view text);

// A value of TOML, of YAML (as a flow value) or of JSON. Null has no TOML form; callers leave it out.
[[nodiscard]] std::string value_text(const document::Node& value, std::string_view assign = ": ");

// JSON with one member per line and the nested tables indented.
[[nodiscard]] std::string pretty_json(const document::Node& value, int depth = 0);

// Lines that end in comments, aligned as a block: "  --bf16  # why".
struct Line {
  std::string text;
  std::string why;
};
[[nodiscard]] std::string with_comments(const std::vector<Line>& lines, std::string_view indent = "");

// One line without control characters, short enough to stand beside a value.
[[nodiscard]] std::string comment(std::string_view text);

// The reason of a key where one is given, else what the key means; words that are no key are a reason themselves.
[[nodiscard]] std::string why(std::string_view key, const std::vector<Reason>& reasons);

// The same for a line that sets this value: where it switches the key off and no reason says why, the comment
// does not claim what only holds when it is on.
[[nodiscard]] std::string why_value(std::string_view key, const document::Node& value,
                                    const std::vector<Reason>& reasons);

[[nodiscard]] document::Node object_node();
void put(document::Node& table, std::string_view name, document::Node value);

}  // namespace plimsoll::emit
