// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/diff_report.h"
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

}  // namespace

std::string recording_diff_report(const answer::RecordingDiff& diff, const Console& console) {
  const allocator::Stats& a = diff.a.run.stats;
  const allocator::Stats& b = diff.b.run.stats;
  Table table({{"peak GiB"}, {diff.a.path, Align::kRight}, {diff.b.path, Align::kRight}, {"change", Align::kRight}});
  for (const auto& [name, before, after] : {std::tuple{"requested", a.peak_requested, b.peak_requested},
                                            std::tuple{"allocated", a.peak_allocated, b.peak_allocated},
                                            std::tuple{"reserved", a.peak_reserved, b.peak_reserved}})
    table.add_row({name, format_gib(before, 3), format_gib(after, 3), signed_gib(after - before)});
  std::string text = table.to_text(console.width, console.colour_out);
  text += fmt::format("fragmentation {:.1f} % and {:.1f} %\n", 100 * diff.a.run.fragmentation(),
                      100 * diff.b.run.fragmentation());
  text += rows_table("category, at the peak allocated", answer::changed(diff.peaks.categories), console);
  text += rows_table("origin", diff.peaks.origins, console);
  text += rows_table("objects of one size", diff.peaks.sizes, console);
  if (diff.peaks.origins.empty()) text += "\nno origin holds more or less at the peak\n";
  return text;
}

}  // namespace plimsoll::cli
