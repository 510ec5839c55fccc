// SPDX-License-Identifier: Apache-2.0
// The part of YAML that configurations are written in, read some twenty times as fast as all of YAML: a file of ten
// megabytes, which is a long list of data, costs a fraction of a second.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "document/node.h"

namespace plimsoll::document {

// Of a longer list only this many items are kept. No setting is as long; lists of data are.
inline constexpr std::size_t kKeptItems = 4096;

struct PlainYaml {
  std::optional<Node> root;
  int stopped_at = 0;      // 1-based, where `root` is empty: the line that is more than plain
  bool too_large = false;  // more values than any configuration has
};

// Tables and lists in blocks, one key per line, and on it a plain or quoted text without escapes, or a list or table in
// brackets. Anchors, tags, texts over several lines, repeated keys, other characters than ASCII outside of comments
// and whatever is not valid end the reading: then all of YAML has the answer, or the error. What is read is what
// parse_yaml() reads of it, but for the lines of empty values and the ends of long lists.
[[nodiscard]] PlainYaml parse_plain_yaml(std::string_view text);

// All of YAML, plain or not, up to 4 MiB. What plain YAML is must be the same in both, which the tests hold.
[[nodiscard]] Result<Node> parse_whole_yaml(std::string_view text);

// The value of a text as YAML 1.1 has it, where quotes do not make it a text.
[[nodiscard]] Node yaml_scalar(std::string_view value);

}  // namespace plimsoll::document
