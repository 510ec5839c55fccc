// SPDX-License-Identifier: Apache-2.0
#include "cli/run_report.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/fit_time.h"
#include "cli/table.h"
#include "live/groups.h"

namespace plimsoll::cli {

namespace {

using live::Quantity;

std::string gib(const std::optional<double>& bytes) {
  return bytes ? format_gib(static_cast<std::int64_t>(*bytes)) : "-";
}

// Measured, predicted, and their difference in percent of the predicted.
void add_quantity(std::vector<Cell>& cells, const Quantity& quantity, bool seconds, bool with_prediction) {
  const auto text = [seconds](const std::optional<double>& value) {
    return !seconds ? gib(value) : value ? format_seconds(*value) : std::string("-");
  };
  cells.emplace_back(text(quantity.measured));
  if (!with_prediction) return;
  if (!quantity.predicted) {
    cells.emplace_back("-");
    return;
  }
  const auto off = quantity.difference();
  cells.emplace_back(off && *quantity.predicted > 0
                         ? fmt::format("{} {:+.1f}%", text(quantity.predicted), 100 * *off / *quantity.predicted)
                         : text(quantity.predicted),
                     quantity.is_outside_interval() ? Style::kWarning : Style::kPlain);
}

std::string ending_line(const live::Run& run) {
  const live::Ending& ending = run.ending;
  std::string end = ending.signal > 0 ? fmt::format("ended by signal {} ({})", ending.signal, strsignal(ending.signal))
                                      : fmt::format("exit code {}", ending.exit_code);
  return fmt::format("plimsoll run: {} after {}\n", end, format_seconds(ending.seconds));
}

std::string machine_lines(const live::Run& run) {
  std::string text = fmt::format("host: most {} in {} process{}", format_bytes(run.most.tree), run.most.processes,
                                 run.most.processes == 1 ? "" : "es");
  if (run.most.cgroup_last.limit > 0)
    text += fmt::format(", limit {} (most charged {})", format_bytes(run.most.cgroup_last.limit),
                        format_bytes(run.most.cgroup_most));
  if (run.most.shm > 0) text += fmt::format(", /dev/shm {}", format_bytes(run.most.shm));
  text += "\n";
  for (const auto& [index, device] : run.most.devices) {
    const std::int64_t before = run.most.used_first.at(index);
    if (device.used == before && run.most.devices.size() > 1) continue;  // not ours
    text +=
        fmt::format("GPU {}: most {} of {} in use{}\n", index, format_bytes(device.used), format_bytes(device.total),
                    before > kGiB ? fmt::format(", {} of it before the run began", format_bytes(before)) : "");
  }
  return text;
}

std::string failure_lines(const live::Run& run) {
  std::string text;
  int shown = 0;
  for (const live::RankRun& rank : run.ranks) {
    if (!rank.oom || ++shown > 3) continue;
    text += fmt::format("rank {} ran out in {} after {} steps: {} more wanted, {} free of {}, {} allocated{}\n",
                        rank.rank, rank.oom->phase, rank.oom->step, format_bytes(rank.oom->requested),
                        format_bytes(rank.oom->free), format_bytes(rank.oom->total), format_bytes(rank.oom->allocated),
                        rank.snapshot.empty() ? "" : fmt::format(" ({}/{})", run.folder, rank.snapshot));
    if (rank.history_given_up > 0)
      text += fmt::format(
          "rank {} made {} allocations a second: the snapshot has no history, because keeping one would "
          "have slowed the steps; --history events keeps it\n",
          rank.rank, with_commas(rank.history_given_up));
  }
  return text;
}

}  // namespace

std::string run_report(const live::Run& run, const live::Prediction* prediction, const Console& console) {
  std::string text = ending_line(run);
  if (!run.rows.empty()) {
    std::vector<Column> columns = {{"rank", Align::kLeft, true}};
    for (const char* title : {"allocated", "reserved", "outside", "step"}) {
      columns.push_back({title, Align::kRight});
      if (prediction != nullptr) columns.push_back({"predicted", Align::kRight});
    }
    columns.push_back({"headroom", Align::kRight});
    columns.push_back({"cached", Align::kRight});
    Table table(std::move(columns));
    for (const live::RankGroup& group : live::group_rows(run.rows)) {
      const live::RankComparison& row = run.rows[group.fullest];
      std::vector<Cell> cells = {group.label};
      add_quantity(cells, row.allocated, false, prediction != nullptr);
      add_quantity(cells, row.reserved, false, prediction != nullptr);
      add_quantity(cells, row.outside, false, prediction != nullptr);
      add_quantity(cells, row.seconds, true, prediction != nullptr);
      cells.emplace_back(format_gib(row.headroom), row.headroom < 0 ? Style::kBad : Style::kPlain);
      cells.emplace_back(fmt::format("{:.1f}%", 100 * row.fragmentation));
      table.add_row(std::move(cells));
    }
    text += "\n" + table.to_text(console.width, console.colour_out) +
            "GiB of the device; cached: reserved beyond the " + "peak of what was allocated\n\n";
  }
  text += machine_lines(run) + failure_lines(run);
  for (const std::string& line : run.differences) text += "note: " + line + "\n";
  if (run.rows.empty() && run.hook == "not entered")
    text +=
        "note: no process of the command reported: none imported PyTorch with CUDA, it ended before a step was done, "
        "or Python was started with -I, -S or -E\n";
  if (!run.nvml.empty()) text += fmt::format("note: the device was not sampled: {}\n", run.nvml);
  if (prediction == nullptr) text += "note: nothing was predicted; --job FILE compares with what fit says\n";
  for (const std::string& problem : run.problems) text += "warning: " + problem + "\n";
  if (!run.folder.empty()) text += fmt::format("kept in {}\n", run.folder);
  return text;
}

}  // namespace plimsoll::cli
