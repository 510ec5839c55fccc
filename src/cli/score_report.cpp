// SPDX-License-Identifier: Apache-2.0
#include "cli/score_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/fit_report.h"
#include "cli/fit_time.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

std::string percent(double value) { return fmt::format("{:.3f}", value); }

// "+0.120", "-3.000"; a zero has no sign.
std::string signed_percent(double value) { return std::abs(value) < 0.0005 ? "0.000" : fmt::format("{:+.3f}", value); }

std::vector<Column> error_columns(std::vector<Column> first) {
  for (const char* title : {"scored", "median %", "p90 %", "worst %", "signed median %", "inside 90 %", "half-width %"})
    first.push_back({title, Align::kRight});
  return first;
}

void add_errors(std::vector<Cell>& cells, const truth::Statistics& errors) {
  cells.emplace_back(std::to_string(errors.count));
  for (const double value : {errors.median_pct, errors.p90_pct, errors.max_pct}) cells.emplace_back(percent(value));
  cells.emplace_back(signed_percent(errors.signed_median_pct));
  cells.emplace_back(fmt::format("{:.0f} %", 100 * errors.inside));
  cells.emplace_back(fmt::format("{:.2f}", errors.half_width_pct));
}

std::string skipped_lines(const answer::ScoredFile& file) {
  std::map<std::string, std::size_t> reasons;
  for (const truth::Skipped& skipped : file.score.skipped) ++reasons[skipped.reason];
  std::string text;
  for (const auto& [reason, count] : reasons)
    text += fmt::format("{}: {} skipped: {}\n", file.score.path, count, reason);
  return text;
}

std::string shown(const std::string& quantity, double value) {
  if (quantity == "step_seconds") return fmt::format("{:.3f} s", value);
  return fmt::format("{} GiB", format_gib(static_cast<std::int64_t>(value), 3));
}

}  // namespace

std::string score_table(const std::vector<answer::ScoredFile>& files, const Console& console) {
  Table table(error_columns({{"file"}, {"quantity"}, {"records", Align::kRight}}));
  std::string skipped;
  for (const answer::ScoredFile& file : files) {
    for (const std::string& quantity : answer::quantities()) {
      const truth::Statistics errors = truth::statistics(file.score, file.records, quantity);
      if (errors.count == 0) continue;
      std::vector<Cell> cells = {file.score.path, quantity, std::to_string(file.score.records)};
      add_errors(cells, errors);
      table.add_row(std::move(cells));
    }
    if (file.score.scored == 0) table.add_row({file.score.path, "nothing", std::to_string(file.score.records), "0"});
    skipped += skipped_lines(file);
  }
  return table.to_text(console.width, console.colour_out) + (skipped.empty() ? "" : "\n" + skipped);
}

std::string group_table(const std::vector<answer::ScoredFile>& files, const std::string& key, const Console& console) {
  Table table(error_columns({{"file"}, {"quantity"}, {key}}));
  for (const answer::ScoredFile& file : files)
    for (const std::string& quantity : answer::quantities())
      for (const std::string& value : answer::group_values(file, key)) {
        const truth::Statistics errors = truth::statistics(file.score, file.records, quantity, key, value);
        if (errors.count == 0) continue;
        std::vector<Cell> cells = {file.score.path, quantity, value};
        add_errors(cells, errors);
        table.add_row(std::move(cells));
      }
  return table.to_text(console.width, console.colour_out);
}

std::string worst_report(const std::vector<answer::ScoredFile>& files, std::size_t count, const Console& console) {
  struct Miss {
    const answer::ScoredFile* file;
    const truth::ScoredRow* row;
  };
  std::vector<Miss> misses;
  for (const answer::ScoredFile& file : files)
    for (const truth::ScoredRow& row : file.score.rows) misses.push_back({&file, &row});
  std::stable_sort(misses.begin(), misses.end(), [](const Miss& a, const Miss& b) {
    return std::abs(a.row->error_pct) > std::abs(b.row->error_pct);
  });
  misses.resize(std::min(misses.size(), count));

  std::string text;
  for (const Miss& miss : misses) {
    const truth::ScoredRow& row = *miss.row;
    text += fmt::format("\n{}: {}: {} {} measured, {} predicted, {} %\n", miss.file->score.path, row.id, row.quantity,
                        shown(row.quantity, row.measured), shown(row.quantity, row.predicted),
                        signed_percent(row.error_pct));
    const truth::Record& record = miss.file->records.records[row.record];
    if (row.quantity == "step_seconds") {
      timing::Options options;
      options.alone = !record.whole_job;
      options.rank = record.pp_rank;
      const Result<timing::StepTime> time = timing::predict(record.job, options);
      if (time) text += time_report(*time, console);
      continue;
    }
    memory::AskedRanks asked;
    asked.pp = record.pp_rank;
    asked.alone = true;
    const Result<memory::Answer> answer = memory::answer(record.job, asked);
    if (answer) text += memory_table(answer->ranks[answer->worst], console);
  }
  return text;
}

}  // namespace plimsoll::cli
