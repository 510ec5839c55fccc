// SPDX-License-Identifier: Apache-2.0
// torchtitan's converters of linears: torchao's Float8Linear and MX formats, under the names of both forms of its TOML
// (facts other-frameworks-memory.md 6.5).
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "framework/torchtitan/torchtitan.h"
#include "job/value.h"

namespace plimsoll::job {

using document::Node;

namespace {

const Node* table_at(const Node& root, std::string_view path) {
  const Node* node = &root;
  for (const std::string_view part : split(path, '.')) {
    node = node->is_object() ? node->find(part) : nullptr;
    if (node == nullptr) return nullptr;
  }
  return node->is_object() ? node : nullptr;
}

std::vector<std::string> words_of(const Node* value) {
  std::vector<std::string> words;
  if (value == nullptr) return words;
  if (value->is_string())
    for (const std::string_view word : split(value->text, ',')) words.emplace_back(trim(word));
  for (const Node& item : value->items)
    if (item.is_string()) words.push_back(item.text);
  std::erase(words, "");
  return words;
}

Node list_of(const std::vector<std::string>& words) {
  Node list;
  list.kind = Node::Kind::kArray;
  for (const std::string& word : words) list.items.push_back(text_node(word));
  return list;
}

Status read_float8(const Node* table, std::string_view where, Draft& draft) {
  static const Node kEmpty;
  const Node& options = table == nullptr ? kEmpty : *table;
  const Node* recipe = table == nullptr ? nullptr : options.find("recipe_name");
  const std::string word = recipe != nullptr && recipe->is_string() ? recipe->text : "";
  if (!word.empty() && word != "tensorwise" && word != "rowwise" && word != "rowwise_with_gw_hp")
    return bad_input(
        fmt::format("{}.recipe_name: found '{}', wanted tensorwise, rowwise or rowwise_with_gw_hp", where, word));
  const Node* gathers = table == nullptr ? nullptr : options.find("enable_fsdp_float8_all_gather");
  bool gathers_float8 = false;
  if (gathers != nullptr) {
    auto flag = to_bool(*gathers);
    if (!flag) return bad_input(fmt::format("{}.enable_fsdp_float8_all_gather: {}", where, flag.error().message));
    gathers_float8 = *flag;
  }
  if (gathers_float8 && !word.empty())
    return bad_input(
        fmt::format("using `float8_config.enable_fsdp_float8_all_gather` together with `float8_config.recipe_name` is "
                    "not supported ({})",
                    where),
        "leave one of them out");
  draft.assign("fp8", text_node("hybrid"), where);
  draft.assign("fp8_recipe", text_node("tensorwise"), where);
  draft.assign("fp8_param_gather", bool_node(gathers_float8), where);
  if (word.starts_with("rowwise"))
    draft.warnings.push_back(fmt::format(
        "{}.recipe_name {}: counted as tensorwise, whose casts and products take as long and whose messages "
        "of tensor parallelism are half as large",
        where, word));
  if (const auto filter = words_of(options.find("filter_fqns")); !filter.empty())
    draft.assign("float8_filter", list_of(filter), where);
  return {};
}

}  // namespace

bool is_of_quantisation(std::string_view key) {
  constexpr std::string_view kTables[] = {"quantize.linear.float8.",
                                          "quantize.linear.mx.",
                                          "quantize.grouped_mm.float8.",
                                          "quantize.grouped_mm.mx.",
                                          "float8.",
                                          "mx."};
  constexpr std::string_view kKeys[] = {"recipe_name",
                                        "enable_fsdp_float8_all_gather",
                                        "precompute_float8_dynamic_scale_for_fsdp",
                                        "force_recompute_fp8_weight_in_bwd",
                                        "filter_fqns",
                                        "emulate",
                                        "fqns",
                                        "moe_fqns_prototype",
                                        "mxfp8_dim1_cast_kernel_choice",
                                        "use_fp8_dim1_cast_triton_kernel",
                                        "grouped_mm"};
  if (key == "model.converters") return true;
  return std::any_of(std::begin(kTables), std::end(kTables), [&](std::string_view table) {
    return key.starts_with(table) &&
           std::find(std::begin(kKeys), std::end(kKeys), key.substr(table.size())) != std::end(kKeys);
  });
}

Status read_torchtitan_quantisation(const Node& root, Draft& draft) {
  const Node* model = root.find("model");
  const Node* converters = model != nullptr && model->is_object() ? model->find("converters") : nullptr;
  for (const std::string& name : words_of(converters)) {
    if (name == "quantize.linear.float8" || name == "float8") {
      const std::string_view where = name == "float8" ? "float8" : "quantize.linear.float8";
      PLIMSOLL_TRY_STATUS(read_float8(table_at(root, where), where, draft));
    } else if (name == "quantize.linear.mx" || name == "mx") {
      draft.assign("fp8", text_node("e4m3"), name);
      draft.assign("fp8_recipe", text_node("mxfp8"), name);
      const Node* table = table_at(root, name);
      if (const auto filter = words_of(table == nullptr ? nullptr : table->find("filter_fqns")); !filter.empty())
        draft.assign("float8_filter", list_of(filter), name);
    } else if (name == "lora") {
      draft.assign("model.converters", *converters);  // adapters, which torchtitan's models here have none of
    } else {
      draft.warnings.push_back(fmt::format("model.converters {}: {}", name,
                                           name.starts_with("quantize.grouped_mm")
                                               ? "products of experts are counted in 16 bits"
                                               : "what it does to the model is not counted"));
    }
  }
  return {};
}

}  // namespace plimsoll::job
