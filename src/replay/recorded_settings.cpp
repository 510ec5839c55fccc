// SPDX-License-Identifier: Apache-2.0
#include "replay/recorded_settings.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::replay {

namespace {

// What the snapshot says was in force, key by key.
std::vector<std::pair<std::string_view, std::string>> in_force(const snapshot::AllocatorSettings& file) {
  std::vector<std::pair<std::string_view, std::string>> values;
  if (file.expandable_segments)
    values.emplace_back("expandable_segments", *file.expandable_segments ? "True" : "False");
  if (file.max_split_size) values.emplace_back("max_split_size", fmt::format("{}", *file.max_split_size));
  if (file.garbage_collection_threshold)
    values.emplace_back("garbage_collection_threshold", fmt::format("{}", *file.garbage_collection_threshold));
  std::vector<std::string> divisions;
  for (const auto& [mib, parts] : file.roundup_power2_divisions) divisions.push_back(fmt::format("{}:{}", mib, parts));
  if (!divisions.empty()) values.emplace_back("roundup_power2_divisions", "[" + join(divisions, ",") + "]");
  return values;
}

}  // namespace

RecordedSettings recorded_settings(const snapshot::Snapshot& snapshot, allocator::Version torch) {
  RecordedSettings result;
  result.settings.torch = torch;
  if (!snapshot.settings) {
    result.notes.emplace_back(
        "the snapshot does not say which allocator settings it was recorded under; the default is assumed");
    return result;
  }
  const snapshot::AllocatorSettings& file = *snapshot.settings;
  result.text = file.conf.value_or("");
  auto parsed = allocator::parse_settings(result.text, torch);
  // A newer release may have written a name that the assumed version lacks.
  if (!parsed) parsed = allocator::parse_settings(result.text, {1000, 0});
  if (parsed) {
    result.settings = *std::move(parsed);
    result.settings.torch = torch;
  } else {
    result.notes.push_back(
        fmt::format("the recorded setting '{}' cannot be read: {}", result.text, parsed.error().message));
  }
  allocator::Settings used = result.settings;
  for (const auto& [key, value] : in_force(file))
    if (const Status taken = allocator::take_recorded(key, value, used); !taken)
      result.notes.push_back(fmt::format("in the snapshot: {}", taken.error().message));
  if (allocator::print_settings(used) != allocator::print_settings(result.settings)) {
    result.notes.push_back(fmt::format(
        "PYTORCH_CUDA_ALLOC_CONF was '{}', but other values were in force when the snapshot was taken", result.text));
    result.text = allocator::print_settings(used);
    result.settings = std::move(used);
  }
  return result;
}

}  // namespace plimsoll::replay
