// SPDX-License-Identifier: Apache-2.0
// plimsoll.toml: which jobs a repository has, and what they are held to.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "answer/check.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/text.h"
#include "document/node.h"

namespace plimsoll::answer {

namespace {

using document::Node;

constexpr std::size_t kMostJobs = 10'000;  // every name is compared with every other
constexpr const char* kExample =
    "[[job]]\nname = \"pretraining\"\nfiles = [\"configs/train.yaml\"]\ngpu = \"h100-sxm-80gb\"\ngpus = 64";

tl::unexpected<Error> wrong(const std::string& where, const std::string& key, const Node& found, const char* wanted) {
  return bad_input(fmt::format("{}.{} is {}; wanted {}", where, key, document::to_text(found), wanted));
}

Result<double> share_of(const std::string& where, const std::string& key, const Node& node) {
  if (node.is_string() && node.text.ends_with('%')) {
    const Node number = document::parse_scalar(node.text.substr(0, node.text.size() - 1));
    if (number.is_number() && number.as_real() >= 0) return number.as_real() / 100;
  }
  return wrong(where, key, node, "a share such as \"5%\"");
}

Result<std::int64_t> bytes_of(const std::string& where, const std::string& key, const Node& node) {
  if (node.is_string())
    if (const auto bytes = parse_bytes(node.text); bytes && *bytes >= 0) return *bytes;
  return wrong(where, key, node, "bytes such as \"2GiB\"");
}

Result<bool> read_limit(const std::string& where, const std::string& key, const Node& node, CheckLimits& limits) {
  if (key == "headroom") {
    PLIMSOLL_TRY(bytes, bytes_of(where, key, node));
    limits.headroom = bytes;
  } else if (key == "surely") {
    if (node.kind != Node::Kind::kBool) return wrong(where, key, node, "true or false");
    limits.surely = node.boolean;
  } else if (key == "memory_growth") {
    GrowthLimit growth;
    if (node.is_string() && !node.text.ends_with('%')) {
      PLIMSOLL_TRY(bytes, bytes_of(where, key, node));
      growth.bytes = bytes;
    } else {
      PLIMSOLL_TRY(share, share_of(where, key, node));
      growth.share = share;
    }
    limits.memory = growth;
  } else if (key == "time_growth") {
    PLIMSOLL_TRY(share, share_of(where, key, node));
    limits.time = share;
  } else if (key == "max_step_seconds") {
    if (!node.is_number() || !(node.as_real() > 0)) return wrong(where, key, node, "seconds");
    limits.max_step_seconds = node.as_real();
  } else {
    return false;
  }
  return true;
}

tl::unexpected<Error> unknown(const std::string& where, const std::string& key, std::vector<std::string> known) {
  const std::string meant = nearest(key, known);
  return bad_input(fmt::format("{} has no key '{}'; wanted {}", where, key, join(known, ", ")),
                   meant.empty() ? std::string{} : fmt::format("did you mean {}?", meant));
}

const std::vector<std::string>& limit_keys() {
  static const std::vector<std::string> kKeys = {"headroom", "surely", "memory_growth", "time_growth",
                                                 "max_step_seconds"};
  return kKeys;
}

Status read_files(const std::string& where, const Node& node, Input& input) {
  if (node.is_string()) input.operands = {node.text};
  for (const Node& item : node.items) {
    if (!item.is_string()) return wrong(where, "files", item, "names of files");
    input.operands.push_back(item.text);
  }
  if (input.operands.empty()) return wrong(where, "files", node, "names of files");
  return {};
}

Status read_settings(const std::string& where, const Node& node, Input& input) {
  if (!node.is_object()) return wrong(where, "set", node, "a table of keys");
  for (const auto& [key, value] : node.members)
    input.settings.emplace_back(full_key_name(key), document::to_text(value));
  return {};
}

Result<CheckedEntry> read_entry(const Node& table, std::size_t number, const CheckLimits& defaults) {
  CheckedEntry entry;
  entry.limits = defaults;
  const std::string where = fmt::format("job {}", number);
  if (!table.is_object()) return bad_input(fmt::format("{} is no table", where), kExample);
  std::vector<std::string> known = {"name", "files", "model", "gpu", "gpus", "framework", "config", "set"};
  known.insert(known.end(), limit_keys().begin(), limit_keys().end());
  for (const auto& [key, value] : table.members) {
    std::string* text = key == "name"        ? &entry.name
                        : key == "model"     ? &entry.input.model
                        : key == "gpu"       ? &entry.input.gpu
                        : key == "framework" ? &entry.input.framework
                        : key == "config"    ? &entry.input.config
                                             : nullptr;
    if (text != nullptr) {
      if (!value.is_string()) return wrong(where, key, value, "text");
      *text = value.text;
    } else if (key == "files") {
      PLIMSOLL_TRY_STATUS(read_files(where, value, entry.input));
    } else if (key == "gpus") {
      if (value.kind != Node::Kind::kInteger || value.integer < 1) return wrong(where, key, value, "a positive number");
      entry.input.gpus = value.integer;
    } else if (key == "set") {
      PLIMSOLL_TRY_STATUS(read_settings(where, value, entry.input));
    } else {
      PLIMSOLL_TRY(is_limit, read_limit(where, key, value, entry.limits));
      if (!is_limit) return unknown(where, key, known);
    }
  }
  if (entry.input.operands.empty() && entry.input.model.empty())
    return bad_input(fmt::format("{} names neither files nor a model", where), kExample);
  if (entry.name.empty()) entry.name = entry.input.operands.empty() ? entry.input.model : entry.input.operands.front();
  return entry;
}

Result<CheckList> read_list(const Node& root, CheckList list) {
  CheckLimits defaults;
  if (const Node* limits = root.find("limits")) {
    if (!limits->is_object()) return bad_input("limits is no table", "[limits]\nmemory_growth = \"2%\"");
    for (const auto& [key, value] : limits->members) {
      PLIMSOLL_TRY(is_limit, read_limit("limits", key, value, defaults));
      if (!is_limit) return unknown("limits", key, limit_keys());
    }
  }
  for (const auto& [key, value] : root.members) {
    if (key == "calibration" && value.is_string())
      list.calibration = value.text;
    else if (key != "limits" && key != "job")
      return unknown("the list", key, {"job", "limits", "calibration"});
  }
  const Node* jobs = root.find("job");
  if (jobs == nullptr || jobs->items.empty()) return bad_input("it names no job", kExample);
  if (jobs->items.size() > kMostJobs)
    return bad_input(fmt::format("it names {} jobs; wanted at most {}", jobs->items.size(), kMostJobs));
  for (std::size_t i = 0; i < jobs->items.size(); ++i) {
    PLIMSOLL_TRY(entry, read_entry(jobs->items[i], i + 1, defaults));
    const auto same = std::find_if(list.entries.begin(), list.entries.end(),
                                   [&entry](const CheckedEntry& other) { return other.name == entry.name; });
    if (same != list.entries.end()) return bad_input(fmt::format("two jobs are called '{}'", entry.name));
    list.entries.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

Result<CheckList> read_check_list(const std::string& path) {
  PLIMSOLL_TRY(text, read_file(path));
  return parse_check_list(path, text);
}

Result<CheckList> parse_check_list(const std::string& path, std::string_view text) {
  CheckList list;
  list.path = path;
  list.folder = std::filesystem::path(path).parent_path().string();
  auto root = document::parse_toml(text);
  if (!root) return tl::make_unexpected(std::move(root.error()).with_context(path));
  auto read = read_list(*root, std::move(list));
  if (!read) return tl::make_unexpected(std::move(read.error()).with_context(path));
  return read;
}

}  // namespace plimsoll::answer
