// SPDX-License-Identifier: Apache-2.0
#include "replay/recorded_settings.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/bytes.h"

namespace plimsoll::replay {

namespace {

// The settings as text, where the file's own text is not what was in force.
std::string text_of(const allocator::Settings& settings) {
  std::string text;
  const auto add = [&text](std::string_view name, const auto& value) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", name, value);
  };
  if (settings.expandable_segments) add("expandable_segments", "True");
  if (settings.max_split_size != allocator::kUnlimited) add("max_split_size_mb", settings.max_split_size / kMiB);
  if (settings.gc_threshold > 0) add("garbage_collection_threshold", settings.gc_threshold);
  if (settings.fraction) add("per_process_memory_fraction", *settings.fraction);
  const auto& divisions = settings.divisions;
  if (std::all_of(divisions.begin(), divisions.end(), [&](std::int64_t d) { return d == divisions[0]; })) {
    if (divisions[0] > 0) add("roundup_power2_divisions", divisions[0]);
  } else {
    std::string list;
    for (std::size_t i = 0; i < divisions.size(); ++i)
      list += fmt::format("{}{}:{}", i == 0 ? "" : ",", std::int64_t{1} << i, divisions[i]);
    add("roundup_power2_divisions", "[" + list + "]");
  }
  return text;
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
  const allocator::Settings given = result.settings;
  allocator::Settings& used = result.settings;
  if (file.expandable_segments) used.expandable_segments = *file.expandable_segments;
  if (file.max_split_size)
    used.max_split_size = *file.max_split_size <= 0 ? allocator::kUnlimited : *file.max_split_size;
  if (file.garbage_collection_threshold) used.gc_threshold = *file.garbage_collection_threshold;
  for (const auto& [mib, divisions] : file.roundup_power2_divisions) {
    if (mib <= 0 || !std::has_single_bit(static_cast<std::uint64_t>(mib))) continue;
    const auto entry = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(mib)) - 1);
    if (entry < used.divisions.size() && divisions >= 0 &&
        (divisions == 0 || std::has_single_bit(static_cast<std::uint64_t>(divisions))))
      used.divisions[entry] = divisions;
  }
  if (used.expandable_segments != given.expandable_segments || used.max_split_size != given.max_split_size ||
      used.gc_threshold != given.gc_threshold || used.divisions != given.divisions) {
    result.notes.push_back(fmt::format(
        "PYTORCH_CUDA_ALLOC_CONF was '{}', but other values were in force when the snapshot was taken", result.text));
    result.text = text_of(used);
  }
  return result;
}

}  // namespace plimsoll::replay
