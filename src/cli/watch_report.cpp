// SPDX-License-Identifier: Apache-2.0
#include "cli/watch_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/bytes.h"
#include "cli/fit_time.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

constexpr std::size_t kBar = 30;
constexpr std::size_t kMostRanks = 24;

// "######====....|...": allocated, reserved, free, and the predicted peak as a mark.
std::string bar(std::int64_t inner, std::int64_t outer, std::int64_t total, const std::optional<std::int64_t>& mark) {
  std::string text(kBar, '.');
  if (total <= 0) return text;
  const auto at = [total](std::int64_t bytes) {
    const double share = static_cast<double>(bytes) / static_cast<double>(total);
    return std::min(kBar, static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * kBar)));
  };
  std::fill_n(text.begin(), at(outer), '=');
  std::fill_n(text.begin(), std::min(at(inner), kBar), '#');
  if (mark) text[std::min(at(*mark), kBar - 1)] = '|';
  return text;
}

std::string duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string remark(const live::WatchedRank& rank) {
  if (rank.ran_out) return "ran out";
  if (rank.failed) return "failed";
  if (rank.trend.rising)
    return fmt::format("grows {} per step{}", format_bytes(rank.trend.bytes_per_step),
                       rank.trend.seconds_left ? ", full in " + duration(*rank.trend.seconds_left) : "");
  if (rank.is_outlier) return "more than its peers";
  if (rank.predicted && rank.peak_reserved > *rank.predicted * 102 / 100) return "above the prediction";
  return rank.ended ? "ended" : "";
}

std::string host_line(const live::Sample& sample) {
  std::string text = fmt::format("host: {} available", format_bytes(sample.machine.available));
  if (!sample.tree.processes.empty())
    text += fmt::format(", {} in {} processes", format_bytes(sample.tree.bytes()), sample.tree.processes.size());
  if (sample.cgroup.limit > 0)
    text += fmt::format(", group {} of {}", format_bytes(sample.cgroup.current), format_bytes(sample.cgroup.limit));
  if (sample.machine.shm_used > 0) text += fmt::format(", /dev/shm {}", format_bytes(sample.machine.shm_used));
  return text + "\n";
}

// Where the run in the folder stands; "" while its ranks say that.
std::string run_line(const live::View& view) {
  if (view.ended) return *view.ended + "\n";
  return view.of_folder && view.ranks.empty() ? "no rank has reported yet\n" : "";
}

// Those that have something to say come first where not all fit a screen.
std::vector<live::WatchedRank> shown_ranks(std::vector<live::WatchedRank> ranks) {
  if (ranks.size() <= kMostRanks) return ranks;
  std::stable_sort(ranks.begin(), ranks.end(), [](const live::WatchedRank& a, const live::WatchedRank& b) {
    return std::pair(!remark(a).empty(), a.peak_reserved) > std::pair(!remark(b).empty(), b.peak_reserved);
  });
  ranks.resize(kMostRanks);
  return ranks;
}

}  // namespace

std::string watch_screen(const live::View& view, const Console& console) {
  std::string text;
  for (const live::DeviceUse& device : view.sample.devices)
    text += fmt::format("GPU {} {} {} {}/{} GiB{}\n", device.index, device.name, bar(0, device.used, device.total, {}),
                        format_gib(device.used), format_gib(device.total),
                        device.busy_percent >= 0 ? fmt::format(" {:3} % busy", device.busy_percent) : "");
  if (view.sample.devices.empty() && !view.nvml_problem.empty())
    text += fmt::format("no device: {}\n", view.nvml_problem);
  for (const std::string& process : view.processes) text += "  " + process + "\n";
  text += host_line(view.sample);
  text += run_line(view);
  if (view.ranks.empty()) return text;
  Table table({{"rank", Align::kRight},
               {"step", Align::kRight},
               {"seconds", Align::kRight},
               {"# allocated = reserved | predicted", Align::kLeft},
               {"peak GiB", Align::kRight},
               {"of", Align::kRight},
               {"", Align::kLeft, true}});
  for (const live::WatchedRank& rank : shown_ranks(view.ranks)) {
    const std::string said = remark(rank);
    table.add_row({std::to_string(rank.rank), std::to_string(rank.step),
                   rank.step_seconds ? format_seconds(*rank.step_seconds) : "-",
                   bar(rank.allocated, rank.peak_reserved, rank.total, rank.predicted), format_gib(rank.peak_reserved),
                   format_gib(rank.total),
                   Cell{said, said.empty() || said == "ended" ? Style::kPlain : Style::kWarning}});
  }
  text += "\n" + table.to_text(console.width, console.colour_out);
  if (view.ranks.size() > kMostRanks) text += fmt::format("and {} more ranks\n", view.ranks.size() - kMostRanks);
  return text;
}

std::string watch_lines(const live::View& view) {
  std::string text;
  for (const live::DeviceUse& device : view.sample.devices)
    text += fmt::format("{:.1f} s gpu {} used {} of {}\n", view.sample.seconds, device.index, format_bytes(device.used),
                        format_bytes(device.total));
  if (view.sample.devices.empty() && !view.nvml_problem.empty())
    text += fmt::format("{:.1f} s no device: {}\n", view.sample.seconds, view.nvml_problem);
  for (const std::string& process : view.processes) text += process + "\n";
  for (const live::WatchedRank& rank : shown_ranks(view.ranks)) {
    const std::string said = remark(rank);
    text += fmt::format("{:.1f} s rank {} step {}{} allocated {} reserved {} peak {} of {}{}{}\n", view.sample.seconds,
                        rank.rank, rank.step, rank.step_seconds ? " " + format_seconds(*rank.step_seconds) : "",
                        format_bytes(rank.allocated), format_bytes(rank.reserved), format_bytes(rank.peak_reserved),
                        format_bytes(rank.total), rank.predicted ? " predicted " + format_bytes(*rank.predicted) : "",
                        said.empty() ? "" : ": " + said);
  }
  text += fmt::format("{:.1f} s {}", view.sample.seconds, host_line(view.sample));
  if (const std::string line = run_line(view); !line.empty())
    text += fmt::format("{:.1f} s {}", view.sample.seconds, line);
  return text;
}

}  // namespace plimsoll::cli
