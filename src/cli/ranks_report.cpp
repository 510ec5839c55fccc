// SPDX-License-Identifier: Apache-2.0
#include "cli/ranks_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/fit_time.h"
#include "cli/table.h"
#include "live/groups.h"

namespace plimsoll::cli {

namespace {

std::string gib(const std::optional<double>& bytes) { return format_gib(static_cast<std::int64_t>(bytes.value_or(0))); }

// By phase, the ranks that ran out in it.
std::string who_ran_out(const live::Part& part) {
  std::map<std::string, std::vector<std::int64_t>> phases;
  const std::int64_t last = live::last_restart(part);
  for (const live::RankFacts& facts : part.rows)
    if (!facts.ran_out.empty() && !facts.is_log && facts.restart == last) phases[facts.ran_out].push_back(facts.rank);
  std::string text;
  for (auto& [phase, ranks] : phases)
    text += fmt::format("ran out in {}: rank {}\n", phase, live::ranges(std::move(ranks)));
  return text;
}

// Of logs: by cause and phase, the ranks that failed so; then those that only report it, and those that did not fail.
std::string who_failed(const live::Part& part) {
  std::map<std::string, std::set<std::int64_t>> causes;
  std::set<std::int64_t> echoes;
  std::set<std::int64_t> silent;
  for (const live::RankFacts& facts : part.rows) {
    if (!facts.is_log || !facts.problem.empty()) continue;
    if (facts.cause.empty())
      silent.insert(facts.rank);
    else if (facts.is_echo)
      echoes.insert(facts.rank);
    else
      causes[facts.phase.empty() ? facts.cause : facts.cause + " in " + facts.phase].insert(facts.rank);
  }
  std::string text;
  const auto say = [&text](const std::string& what, const std::set<std::int64_t>& ranks) {
    if (!ranks.empty()) text += fmt::format("{}: rank {}\n", what, live::ranges({ranks.begin(), ranks.end()}));
  };
  for (const auto& [cause, ranks] : causes) {
    say(cause, ranks);
    for (const std::int64_t rank : ranks) echoes.erase(rank), silent.erase(rank);
  }
  for (const std::int64_t rank : echoes) silent.erase(rank);
  say("only report that another rank was lost", echoes);
  say("no failure", silent);
  return text;
}

std::string imbalance_lines(const live::Part& part) {
  std::string text;
  for (const live::Imbalance& one : live::imbalances(part))
    text += fmt::format("{} {}: {} reserved per rank, {:.1f} % above the mean of {} {}s\n", one.kind, one.name,
                        format_bytes(static_cast<std::int64_t>(one.held)), 100 * one.above, one.of, one.kind);
  return text;
}

std::string unreadable(const std::vector<std::string>& files) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, files.size()); ++i)
    text += fmt::format("not read: {}\n", files[i]);
  return files.size() > 3 ? text + fmt::format("not read: {} more files\n", files.size() - 3) : text;
}

}  // namespace

std::string ranks_report(const live::Part& part, const Console& console) {
  const std::vector<live::RankComparison> rows = live::rows_of(part);
  Table table({{"ranks", Align::kLeft, true},
               {"count", Align::kRight},
               {"allocated GiB", Align::kRight},
               {"reserved GiB", Align::kRight},
               {"cached", Align::kRight},
               {"step", Align::kRight},
               {"", Align::kLeft}});
  for (const live::RankGroup& group : live::group_rows(rows)) {
    const live::RankComparison& row = rows[group.fullest];
    table.add_row({group.label, std::to_string(group.rows.size()), gib(row.allocated.measured),
                   gib(row.reserved.measured), fmt::format("{:.1f}%", 100 * row.fragmentation),
                   row.seconds.measured ? format_seconds(*row.seconds.measured) : "-",
                   Cell{group.is_outlier ? "stands out" : "", Style::kWarning}});
  }
  std::string text = fmt::format("{} of {} files of ranks\n\n", part.rows.size(), part.files);
  if (!table.empty()) text += table.to_text(console.width, console.colour_out);
  for (const std::string& fate : live::fates_of(part)) text += fate + "\n";
  return text + who_ran_out(part) + who_failed(part) + imbalance_lines(part) + unreadable(live::not_read(part));
}

std::string ranks_diff_report(const live::RanksDiff& diff, const Console& console) {
  Table table({{"ranks", Align::kLeft, true},
               {"count", Align::kRight},
               {"allocated GiB", Align::kRight},
               {"change", Align::kRight},
               {"reserved GiB", Align::kRight},
               {"change", Align::kRight},
               {"step", Align::kRight},
               {"change", Align::kRight}});
  const auto change = [](const live::Quantity& quantity) {
    const auto off = quantity.difference();
    if (!off || *quantity.predicted <= 0) return std::string("-");
    return fmt::format("{:+.2f}%", 100 * *off / *quantity.predicted);
  };
  for (const live::RankGroup& group : live::group_rows(diff.rows)) {
    const live::RankComparison& row = diff.rows[group.fullest];
    table.add_row({group.label, std::to_string(group.rows.size()), gib(row.allocated.measured), change(row.allocated),
                   gib(row.reserved.measured), change(row.reserved),
                   row.seconds.measured ? format_seconds(*row.seconds.measured) : "-", change(row.seconds)});
  }
  std::string text = table.to_text(console.width, console.colour_out);
  if (!diff.alone.empty()) text += fmt::format("without a counterpart: rank {}\n", live::ranges(diff.alone));
  return text + unreadable(diff.not_read);
}

}  // namespace plimsoll::cli
