// SPDX-License-Identifier: Apache-2.0
#include "framework/tools/sections.h"

#include <algorithm>

#include "base/text.h"
#include "job/unknown.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

bool holds(std::string_view names, std::string_view word) {
  const std::vector<std::string_view> all = split(names, ' ');
  return std::find(all.begin(), all.end(), word) != all.end();
}

// A table that is switched off says nothing.
bool is_switched_off(const Node& table) {
  const Node* enabled = table.find("enabled");
  return enabled != nullptr && is_off(*enabled);
}

struct Words {
  std::string_view known;
  std::string_view elsewhere;
};

void keep_below(const Node& table, const std::string& prefix, const Words& words, Draft& draft) {
  for (const auto& [name, value] : table.members) {
    const std::string path = prefix.empty() ? name : prefix + "." + name;
    if (value.is_object()) {
      if (!holds(words.elsewhere, name) && !is_switched_off(value)) keep_below(value, path, words, draft);
    } else if (!value.is_null() && !holds(words.known, name) && !subject_of(path).empty()) {
      draft.assign(path, value, path);
    }
  }
}

}  // namespace

void keep_unread(const Node& root, std::string_view known, std::string_view elsewhere, Draft& draft) {
  keep_below(root, "", Words{known, elsewhere}, draft);
}

}  // namespace plimsoll::job
