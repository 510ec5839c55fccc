// SPDX-License-Identifier: Apache-2.0
#include "framework/megatron_lm/tp_overlap.h"

#include <fmt/format.h>

#include "base/file.h"
#include "job/readers/resolve.h"

namespace plimsoll::job {

using document::Node;

void read_overlap_products(const Node& products, std::string_view where, Draft& draft) {
  struct Knob {
    const char* key;
    bool most;  // the largest of them, or the smallest
  };
  for (const Knob& knob : {Knob{"cga_size", true}, Knob{"num_sm", false}, Knob{"num_splits", false}}) {
    const Node* chosen = nullptr;
    for (const auto& [product, table] : products.members) {
      const Node* value = table.find(knob.key);
      if (value == nullptr || !value->is_integer()) continue;
      const bool further =
          chosen != nullptr && (knob.most ? value->integer > chosen->integer : value->integer < chosen->integer);
      if (chosen == nullptr || further) chosen = value;
    }
    if (chosen != nullptr) draft.assign(knob.key, *chosen, fmt::format("{}.*.{}", where, knob.key));
  }
  for (const auto& [product, table] : products.members)
    if (const Node* on = table.find("fp8_buf"); on != nullptr && on->is_bool() && on->boolean)
      draft.assign("fp8_buf", *on, fmt::format("{}.{}.fp8_buf", where, product));
}

Status read_overlap_file(const std::string& name, Draft& draft) {
  const auto path = locate(name, parent_folder(draft.path));
  if (!path) {
    draft.notes.push_back(fmt::format("--tp-comm-overlap-cfg {}: not here; its sizes were not checked", name));
    return {};
  }
  PLIMSOLL_TRY(text, read_named_file(*path));
  auto root = document::parse_yaml(text);
  if (!root) return tl::make_unexpected(std::move(root.error()).with_context(*path));
  if (!root->is_object()) return bad_input(fmt::format("{}: wanted one table per product, such as qkv_fprop", *path));
  read_overlap_products(*root, name, draft);
  return {};
}

}  // namespace plimsoll::job
