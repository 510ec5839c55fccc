// SPDX-License-Identifier: Apache-2.0
// Sizes that stand in lists of tables: a data set that says how long its sequences are ("datasets: [{sequence_length:
// 2048}]"), layers that are listed one by one ("blocks: [{num_attention_heads: 24}, ...]"). What all items of a list
// say alike holds for the whole; where layers differ the model is left to whoever knows it.
#include <algorithm>
#include <map>
#include <vector>

#include "base/text.h"
#include "framework/tools/by_names.h"
#include "job/readers/parse.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

bool is_list_of_tables(const Node& value) {
  return value.is_array() && !value.items.empty() &&
         std::all_of(value.items.begin(), value.items.end(), [](const Node& item) { return item.is_object(); });
}

struct Common {
  Node value;
  std::size_t count = 0;
  bool differs = false;
};

// Whether every size that the list holds is the same in all items.
bool take_common(const Node& list, bool of_model, Node& into) {
  std::map<std::string, Common> found;
  for (const Node& item : list.items)
    for_each_leaf(item, [&](const std::string& path, const Node& value) {
      const std::string last = path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
      const bool counts = of_model ? is_size_of_model(last) || last == "activation_function"
                                   : meaning_of(last) == "max_length" && value.is_integer();
      if (!counts) return;
      Common& common = found[last];
      if (common.count > 0 && !same_value(common.value, value)) common.differs = true;
      if (common.count == 0) common.value = value;
      ++common.count;
    });
  bool is_whole = !found.empty();
  for (auto& [name, common] : found) {
    const bool holds = !common.differs && (!of_model || common.count == list.items.size());
    is_whole = is_whole && holds;
    if (holds && !into.has(name)) into.members.emplace_back(name, std::move(common.value));
  }
  return is_whole;
}

void spread(Node& table, bool of_model) {
  const std::size_t count = table.members.size();
  std::vector<std::string> read;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string key = table.members[i].first;
    if (is_list_of_tables(table.members[i].second)) {
      const Node list = table.members[i].second;
      if (take_common(list, of_model, table) && of_model) read.push_back(key);
    } else if (table.members[i].second.is_object()) {
      spread(table.members[i].second, of_model || key.starts_with("model"));
    }
  }
  std::erase_if(table.members, [&read](const auto& member) {
    return std::find(read.begin(), read.end(), member.first) != read.end();
  });
}

bool has_lists(const Node& table) {
  return std::any_of(table.members.begin(), table.members.end(), [](const auto& member) {
    return is_list_of_tables(member.second) || (member.second.is_object() && has_lists(member.second));
  });
}

}  // namespace

std::optional<Node> with_sizes_in_lists(const Node& root) {
  if (!has_lists(root)) return std::nullopt;
  Node whole = root;
  spread(whole, false);
  return whole;
}

}  // namespace plimsoll::job
