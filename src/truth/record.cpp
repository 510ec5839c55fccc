// SPDX-License-Identifier: Apache-2.0
#include "truth/record.h"

#include <fmt/format.h>

namespace plimsoll::truth {

using document::Node;

std::int64_t integer_or(const Node& node, std::string_view key, std::int64_t fallback) {
  const Node* found = node.find(key);
  if (found == nullptr || !found->is_number()) return fallback;
  if (found->is_integer()) return found->integer;
  constexpr double kLargest = 9e18;  // beyond it, and for NaN, the conversion is undefined
  return found->real > -kLargest && found->real < kLargest ? static_cast<std::int64_t>(found->real) : fallback;
}

bool flag_of(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  return found != nullptr && found->is_bool() && found->boolean;
}

std::string text_of(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  return found != nullptr && found->is_string() ? found->text : std::string{};
}

const Node& table_of(const Node& node, std::string_view key) {
  static const Node kEmpty;
  const Node* found = node.find(key);
  return found != nullptr && found->is_object() ? *found : kEmpty;
}

namespace {

using Reader = Record (*)(const Node&);

Reader reader_for(const Node& record) {
  if (record.has("golden_file")) return read_golden;
  if (record.has("tokens_per_s_per_gpu") || record.has("suite")) return read_published_throughput;
  if (!record.has("measured")) return nullptr;
  if (record.has("training_args")) return read_trainer_recording;
  return record.has("parallel") ? read_megatron_recording : read_torch_recording;
}

}  // namespace

Result<RecordFile> read_records(const std::string& path, std::string_view text) {
  PLIMSOLL_TRY(root, document::parse_json(text));
  const Node* records = root.find("records");
  if (records == nullptr || !records->is_array())
    return bad_input("no list \"records\" in it", "wanted a truth file: {\"note\": ..., \"records\": [...]}");
  RecordFile file;
  file.path = path;
  if (text_of(root, "kind") == "plimsoll-run") {
    file.records = read_run(root);
    return file;
  }
  std::int64_t number = 0;
  for (const Node& node : records->items) {
    ++number;
    const Reader reader = node.is_object() ? reader_for(node) : nullptr;
    if (reader == nullptr)
      return bad_input(
          fmt::format("record {} is of no known kind", number),
          "wanted the fields of a recording (measured, model, train, or config, training_args), a Megatron golden "
          "value (golden_file, args) or a published throughput (suite, tokens_per_s_per_gpu)");
    file.records.push_back(reader(node));
    if (file.records.back().id.empty()) file.records.back().id = fmt::format("record-{}", number);
  }
  return file;
}

}  // namespace plimsoll::truth
