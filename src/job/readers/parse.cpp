// SPDX-License-Identifier: Apache-2.0
#include "job/readers/parse.h"

#include "base/lines.h"
#include "base/text.h"
#include "document/relaxed_json.h"

namespace plimsoll::job {

using document::Node;

namespace {

// "[section]" or "key = value" as the first line that is not a comment.
bool starts_like_toml(std::string_view text) {
  for (const std::string_view raw : lines(text.substr(0, 65536))) {
    const std::string_view line = trim(raw);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[')
      return line.find(',') == std::string_view::npos && line.find(']') != std::string_view::npos;
    const std::size_t equals = line.find('=');
    return equals != std::string_view::npos && line.substr(0, equals).find(':') == std::string_view::npos;
  }
  return false;
}

}  // namespace

Result<Node> parse_json_or_yaml(std::string_view text) {
  const std::string_view start = trim(text);
  if (start.empty()) return bad_input("the file is empty");
  if (start.front() != '{') return document::parse_yaml(text);
  auto strict = document::parse_json(text);
  if (strict) return strict;
  // Comments and trailing commas, or a table in YAML's own notation; the first error is the one that helps.
  if (auto relaxed = document::parse_relaxed_json(text)) return relaxed;
  constexpr std::size_t kMaxFlow = 1 << 20;
  if (text.size() <= kMaxFlow)
    if (auto yaml = document::parse_yaml(text); yaml && yaml->is_object()) return yaml;
  return strict;
}

Result<Node> parse_document(std::string_view text) {
  const std::string_view start = trim(text);
  if (!start.empty() && start.front() != '{' && starts_like_toml(text)) return document::parse_toml(text);
  return parse_json_or_yaml(text);
}

void for_each_leaf(const Node& table, const std::function<void(const std::string&, const Node&)>& visit,
                   const std::string& prefix) {
  for (const auto& [name, value] : table.members) {
    const std::string path = prefix.empty() ? name : prefix + "." + name;
    if (value.is_object()) {
      for_each_leaf(value, visit, path);
    } else {
      visit(path, value);
    }
  }
}

}  // namespace plimsoll::job
