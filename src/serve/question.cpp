// SPDX-License-Identifier: Apache-2.0
#include "serve/question.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/file.h"
#include "job/keys.h"
#include "job/read.h"
#include "rl/keys.h"

namespace plimsoll::serve {

namespace {

bool is_job_key(const std::string& name) {
  const std::vector<std::string>& names = job::key_names();
  return std::find(names.begin(), names.end(), job::canonical_name(name)) != names.end();
}

// Where a name of a catalogue is wanted, a path would be read.
Status refuse_paths(const Query& query) {
  for (const auto& [key, value] : query.keys)
    if (value.find('/') != std::string::npos || file_exists(value))
      return bad_input(fmt::format("{} names a file", key), "drop the file onto the page instead");
  return {};
}

Result<std::int64_t> whole_number(const std::string& key, const std::string& text) {
  std::int64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || number < 1)
    return bad_input(fmt::format("{} is '{}'; wanted a positive whole number", key, text));
  return number;
}

}  // namespace

Result<std::vector<std::string>> paths_of(const Query& query, const Shelf& shelf, Kind kind) {
  std::vector<std::string> paths;
  for (const std::string& id : query.files) {
    PLIMSOLL_TRY(item, shelf.find(id));
    if (item.kind == kind) paths.push_back(item.path);
  }
  return paths;
}

Result<Item> only_file(const Query& query, const Shelf& shelf, Kind kind) {
  for (const std::string& id : query.files) {
    PLIMSOLL_TRY(item, shelf.find(id));
    if (item.kind == kind) return item;
  }
  return bad_input(fmt::format("a {} is missing", text_of(kind)));
}

Result<answer::Input> input_of(const Query& query, const Shelf& shelf) {
  PLIMSOLL_TRY_STATUS(refuse_paths(query));
  answer::Input input;
  PLIMSOLL_TRY(paths, paths_of(query, shelf, Kind::kJob));
  input.operands = std::move(paths);
  for (const auto& [name, value] : query.keys) {
    const std::string key = answer::full_key_name(name);
    if (key == "framework") {
      input.framework = value;
    } else if (key == "model") {
      // As an operand, a model alone is a question about the usual way to train it.
      (input.operands.empty() ? input.operands.emplace_back() : input.model) = value;
    } else if (key == "gpu") {
      input.gpu = value;
    } else if (key == "gpus") {
      PLIMSOLL_TRY(gpus, whole_number(key, value));
      input.gpus = gpus;
    } else if (key == "config") {
      input.config = value;
    } else if (is_job_key(key)) {
      input.settings.emplace_back(key, value);
    } else {
      return bad_input(fmt::format("{} is not a key of a job", key));
    }
  }
  if (input.operands.empty()) return bad_input("a job is missing", "drop a file onto the page, or choose a model");
  return input;
}

Result<answer::RlInput> run_of(const Query& query, const Shelf& shelf) {
  PLIMSOLL_TRY_STATUS(refuse_paths(query));
  PLIMSOLL_TRY(item, only_file(query, shelf, Kind::kRun));
  answer::RlInput input;
  input.path = item.path;
  for (const auto& [key, value] : query.keys) {
    if (rl::find_key(key) == nullptr && !is_job_key(key) && key != "framework" && key != "model" && key != "gpu" &&
        key != "gpus")
      return bad_input(fmt::format("{} is not a key of a run", key));
    input.settings.emplace_back(key, value);
  }
  return input;
}

Result<answer::RecordingConditions> conditions_of(const Query& query) {
  answer::RecordingConditions conditions;
  for (const auto& [key, value] : query.keys) {
    if (key == "gpu") {
      conditions.gpu = value;
    } else if (key == "capacity") {
      PLIMSOLL_TRY(bytes, parse_bytes(value));
      if (bytes <= 0) return bad_input("capacity wants more than nothing");
      conditions.capacity = bytes;
    } else {
      return bad_input(fmt::format("{} is not a condition of a recording", key));
    }
  }
  return conditions;
}

std::string identity_of(const Query& query) {
  std::string text;
  for (const std::string& id : query.files) text += id + '\n';
  for (const auto& [key, value] : query.keys) text += fmt::format("{}={}\n", key, value);
  return text;
}

}  // namespace plimsoll::serve
