// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "answer/diff.h"
#include "answer/json.h"

namespace plimsoll::answer {

namespace {

void write_rows(JsonWriter& json, const char* name, const std::vector<replay::DifferenceRow>& rows) {
  json.key(name).begin_array();
  for (const replay::DifferenceRow& row : rows) {
    json.begin_object(Layout::kInline).member("name", row.text).member("difference", row.delta());
    if (!row.line_a.empty()) json.member("stack_a", row.line_a);
    if (!row.line_b.empty()) json.member("stack_b", row.line_b);
    json.member("bytes_a", row.a.bytes)
        .member("objects_a", row.a.count)
        .member("bytes_b", row.b.bytes)
        .member("objects_b", row.b.count)
        .end_object();
  }
  json.end_array();
}

Result<Recording> open(const std::string& path, const RecordingConditions& conditions) {
  PLIMSOLL_TRY(file, read_recording_file(path));
  if (!file.snapshot) return bad_input(fmt::format("{} has counters only; wanted a snapshot with a history", path));
  PLIMSOLL_TRY(recording, load_recording(path, std::move(file.snapshot), conditions));
  if (!recording.history) return bad_input(fmt::format("{} has no history, so its peak is not known", path));
  return recording;
}

}  // namespace

std::vector<replay::DifferenceRow> changed(const std::vector<replay::DifferenceRow>& rows) {
  std::vector<replay::DifferenceRow> result;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(result),
               [](const replay::DifferenceRow& row) { return row.delta() != 0; });
  return result;
}

bool GrowthLimit::exceeded(std::int64_t before, std::int64_t after) const {
  if (share >= 0) return static_cast<double>(after - before) > share * static_cast<double>(before);
  return bytes >= 0 && after - before > bytes;
}

bool RecordingDiff::within(const GrowthLimit& limit) const {
  return !limit.exceeded(a.run.stats.peak_allocated, b.run.stats.peak_allocated) &&
         !limit.exceeded(a.run.stats.peak_reserved, b.run.stats.peak_reserved);
}

Result<RecordingDiff> compare_recordings(const std::string& path_a, const std::string& path_b,
                                         const RecordingConditions& conditions) {
  PLIMSOLL_TRY(a, open(path_a, conditions));
  PLIMSOLL_TRY(b, open(path_b, conditions));
  RecordingDiff diff{std::move(a), std::move(b), {}};
  const replay::Attribution attribution_a(*diff.a.history);
  const replay::Attribution attribution_b(*diff.b.history);
  diff.peaks = replay::compare_peaks({&*diff.a.history, &attribution_a, diff.a.run.peak_allocated_op},
                                     {&*diff.b.history, &attribution_b, diff.b.run.peak_allocated_op});
  return diff;
}

std::string to_json(const RecordingDiff& diff, bool within_limit) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("kind", "snapshots").member("within_limit", within_limit);
  for (const auto& [name, recording] : {std::pair{"a", &diff.a}, std::pair{"b", &diff.b}})
    json.key(name)
        .begin_object(Layout::kInline)
        .member("file", recording->path)
        .member("events", recording->exact.events)
        .member("reproduced", recording->exact.reproduced)
        .member("peak_requested", recording->run.stats.peak_requested)
        .member("peak_allocated", recording->run.stats.peak_allocated)
        .member("peak_reserved", recording->run.stats.peak_reserved)
        .end_object();
  json.member("difference", diff.b.run.stats.peak_allocated - diff.a.run.stats.peak_allocated);
  write_rows(json, "categories", diff.peaks.categories);
  write_rows(json, "origins", diff.peaks.origins);
  write_rows(json, "sizes", diff.peaks.sizes);
  return json.end_object().take();
}

}  // namespace plimsoll::answer
