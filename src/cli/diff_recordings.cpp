// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/diff_report.h"
#include "cli/json_writer.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

constexpr std::size_t kMostRows = 15;

std::string signed_gib(std::int64_t bytes) { return fmt::format("{}{}", bytes > 0 ? "+" : "", format_gib(bytes, 3)); }

std::string side(const replay::Side& s) {
  return s.count == 0 ? "" : fmt::format("{} x, largest {}", s.count, format_bytes(s.largest));
}

std::string rows_table(const char* title, const std::vector<replay::DifferenceRow>& rows, const Console& console) {
  Table table({{title, Align::kLeft, true}, {"GiB", Align::kRight}, {"before"}, {"after"}});
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i >= kMostRows) {
      rest += rows[i].delta();
      continue;
    }
    table.add_row({rows[i].text, signed_gib(rows[i].delta()), side(rows[i].a), side(rows[i].b)});
  }
  if (rows.size() > kMostRows)
    table.add_row({fmt::format("{} more", rows.size() - kMostRows), signed_gib(rest), "", ""});
  return table.empty() ? std::string{} : "\n" + table.to_text(console.width, console.colour_out);
}

std::vector<replay::DifferenceRow> changed(const std::vector<replay::DifferenceRow>& rows) {
  std::vector<replay::DifferenceRow> result;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(result),
               [](const replay::DifferenceRow& row) { return row.delta() != 0; });
  return result;
}

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

}  // namespace

bool GrowthLimit::exceeded(std::int64_t before, std::int64_t after) const {
  if (share >= 0) return static_cast<double>(after - before) > share * static_cast<double>(before);
  return bytes >= 0 && after - before > bytes;
}

std::string recording_diff_report(const RecordingDiff& diff, const Console& console) {
  const allocator::Stats& a = diff.a->run.stats;
  const allocator::Stats& b = diff.b->run.stats;
  Table table({{"peak GiB"}, {diff.a->path, Align::kRight}, {diff.b->path, Align::kRight}, {"change", Align::kRight}});
  for (const auto& [name, before, after] : {std::tuple{"requested", a.peak_requested, b.peak_requested},
                                            std::tuple{"allocated", a.peak_allocated, b.peak_allocated},
                                            std::tuple{"reserved", a.peak_reserved, b.peak_reserved}})
    table.add_row({name, format_gib(before, 3), format_gib(after, 3), signed_gib(after - before)});
  std::string text = table.to_text(console.width, console.colour_out);
  text += fmt::format("fragmentation {:.1f} % and {:.1f} %\n", 100 * diff.a->run.fragmentation(),
                      100 * diff.b->run.fragmentation());
  text += rows_table("category, at the peak allocated", changed(diff.peaks.categories), console);
  text += rows_table("origin", diff.peaks.origins, console);
  text += rows_table("objects of one size", diff.peaks.sizes, console);
  if (diff.peaks.origins.empty()) text += "\nno origin holds more or less at the peak\n";
  return text;
}

std::string recording_diff_json(const RecordingDiff& diff, bool within_limit) {
  JsonWriter json;
  json.begin_object().member("schema", 1).member("kind", "snapshots").member("within_limit", within_limit);
  for (const auto& [name, recording] : {std::pair{"a", diff.a}, std::pair{"b", diff.b}})
    json.key(name)
        .begin_object(Layout::kInline)
        .member("file", recording->path)
        .member("events", recording->exact.events)
        .member("reproduced", recording->exact.reproduced)
        .member("peak_requested", recording->run.stats.peak_requested)
        .member("peak_allocated", recording->run.stats.peak_allocated)
        .member("peak_reserved", recording->run.stats.peak_reserved)
        .end_object();
  json.member("difference", diff.b->run.stats.peak_allocated - diff.a->run.stats.peak_allocated);
  write_rows(json, "categories", diff.peaks.categories);
  write_rows(json, "origins", diff.peaks.origins);
  write_rows(json, "sizes", diff.peaks.sizes);
  return json.end_object().take();
}

}  // namespace plimsoll::cli
