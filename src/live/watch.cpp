// SPDX-License-Identifier: Apache-2.0
#include "live/watch.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"
#include "live/folder.h"
#include "live/nodes.h"

namespace plimsoll::live {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostPerLook = 16 << 20;  // of one file; the rest comes at the next look

// More than this share above the median of its peers.
constexpr double kOutlier = 0.05;

WatchedRank watched(const RankRun& run, const std::optional<Prediction>& prediction) {
  WatchedRank rank;
  rank.rank = run.rank;
  rank.host = run.host;
  rank.step = run.steps_done;
  rank.step_seconds = run.step_seconds();
  if (!run.steps.empty()) {
    rank.allocated = run.steps.back().allocated;
    rank.reserved = run.steps.back().reserved;
  }
  rank.peak_allocated = run.peak_allocated;
  rank.peak_reserved = run.peak_reserved;
  rank.total = run.total;
  rank.trend = trend_of(run);
  rank.ran_out = run.oom.has_value();
  rank.failed = !run.error.empty();
  rank.ended = run.ended;
  rank.restart = run.restart;
  if (prediction) {
    const auto stage = pipeline_rank(prediction->job, run.rank, run.world);
    const memory::RankAnswer* answer = stage ? answer_for(*prediction, *stage) : nullptr;
    if (answer != nullptr) rank.predicted = answer->peak_reserved;
  }
  return rank;
}

// torchrun --max-restarts: what ranks of an earlier start held is history.
void keep_last_start(std::vector<WatchedRank>& ranks) {
  std::int64_t last = 0;
  for (const WatchedRank& rank : ranks) last = std::max(last, rank.restart);
  std::erase_if(ranks, [last](const WatchedRank& rank) { return rank.restart != last; });
}

// run.json is written when the command has ended.
std::optional<std::string> ended_run(const std::string& folder) {
  const std::string path = (fs::path(folder) / kRunFile).string();
  if (!file_exists(path)) return std::nullopt;
  const auto text = read_file(path);
  const auto record = text ? document::parse_json(*text) : Result<document::Node>{tl::make_unexpected(text.error())};
  if (!record || !record->is_object()) return "the run has ended";
  const std::int64_t signal = integer_in(*record, "signal").value_or(0);
  const std::int64_t code = integer_in(*record, "exit_code").value_or(0);
  const std::string way = signal > 0 ? fmt::format("by signal {}", signal) : fmt::format("with exit code {}", code);
  return fmt::format("the run has ended {}{}", way,
                     signal > 0 || code != 0 ? fmt::format("; plimsoll why {}", folder) : "");
}

void mark_outliers(std::vector<WatchedRank>& ranks) {
  // Ranks of one predicted peak are peers; without a prediction all are.
  std::map<std::int64_t, std::vector<std::int64_t>> peers;
  for (const WatchedRank& rank : ranks) peers[rank.predicted.value_or(0)].push_back(rank.peak_reserved);
  for (auto& [key, values] : peers) std::sort(values.begin(), values.end());
  for (WatchedRank& rank : ranks) {
    const std::vector<std::int64_t>& values = peers[rank.predicted.value_or(0)];
    const std::int64_t median = values[values.size() / 2];
    rank.is_outlier =
        values.size() > 2 && static_cast<double>(rank.peak_reserved) > (1 + kOutlier) * static_cast<double>(median);
  }
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

// One metric with its lines, as the text format of Prometheus wants them together.
class Metric {
 public:
  Metric(std::string_view name, std::string_view help, std::string_view kind = "gauge")
      : name_(name), head_(fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind)) {}
  template <class Number>
  void add(std::string_view labels, Number value) {
    lines_ +=
        labels.empty() ? fmt::format("{} {}\n", name_, value) : fmt::format("{}{{{}}} {}\n", name_, labels, value);
  }
  [[nodiscard]] std::string text() const { return lines_.empty() ? std::string{} : head_ + lines_; }

 private:
  std::string_view name_;
  std::string head_;
  std::string lines_;
};

}  // namespace

Watcher::Watcher(Target target, Nvml* nvml, std::string nvml_problem)
    : target_(std::move(target)),
      nvml_(nvml),
      nvml_problem_(std::move(nvml_problem)),
      begun_(std::chrono::steady_clock::now()) {}

void Watcher::follow() {
  std::error_code error;
  for (const std::string& name : names_in(target_.folder)) {
    if (!name.starts_with("rank-") || !name.ends_with(".jsonl")) continue;
    Followed& file = files_.try_emplace(name, Followed{RankReader(name), 0}).first->second;
    const std::string path = target_.folder + "/" + name;
    const auto size = static_cast<std::int64_t>(fs::file_size(path, error));  // an error where it is no file
    if (error || size <= file.offset) continue;  // thousands of files stand still between two looks
    std::ifstream stream(path, std::ios::binary);
    stream.seekg(file.offset);
    std::string text(static_cast<std::size_t>(std::min(size - file.offset, kMostPerLook)), '\0');
    stream.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, stream.gcount())));
    file.offset += static_cast<std::int64_t>(text.size());
    file.reader.feed(text);
  }
}

View Watcher::look() {
  View view;
  view.sample = take_sample(target_.pid > 0 ? target_.pid : getpid(), nvml_, target_.root);
  view.nvml_problem = nvml_ != nullptr ? nvml_->problem() : nvml_problem_;
  view.sample.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  if (target_.pid == 0) view.sample.tree.processes.clear();  // our own
  if (!target_.folder.empty()) {
    follow();
    for (const auto& [name, file] : files_)
      if (file.reader.is_rank()) view.ranks.push_back(watched(file.reader.run(), prediction_));
    std::sort(view.ranks.begin(), view.ranks.end(),
              [](const WatchedRank& a, const WatchedRank& b) { return a.rank < b.rank; });
    keep_last_start(view.ranks);
    mark_outliers(view.ranks);
    view.of_folder = true;
    view.ended = ended_run(target_.folder);
  }
  for (const DeviceUse& device : view.sample.devices)
    for (const DeviceProcessUse& process : device.processes) {
      const auto name = read_file(fmt::format("{}/proc/{}/comm", target_.root, process.pid), 4096);
      view.processes.push_back(fmt::format("GPU {}: process {} {}{}", device.index, process.pid,
                                           name ? printable(trim(*name), 40) : "(not of this machine's view)",
                                           process.bytes >= 0 ? " holds " + format_bytes(process.bytes) : ""));
    }
  return view;
}

std::string metrics(const View& view) {
  Metric used("plimsoll_device_used_bytes", "Device memory in use by all processes.");
  Metric total("plimsoll_device_total_bytes", "Device memory.");
  Metric busy("plimsoll_device_busy_ratio", "Share of the last second with a kernel running.");
  for (const DeviceUse& device : view.sample.devices) {
    const std::string labels = fmt::format("gpu=\"{}\",name=\"{}\"", device.index, escaped(device.name));
    used.add(labels, device.used);
    total.add(labels, device.total);
    if (device.busy_percent >= 0) busy.add(labels, device.busy_percent / 100.0);
  }
  Metric allocated("plimsoll_rank_allocated_bytes", "Allocated by PyTorch after the last step.");
  Metric reserved("plimsoll_rank_reserved_bytes", "Reserved by PyTorch after the last step.");
  Metric peak("plimsoll_rank_peak_reserved_bytes", "Most that PyTorch had reserved.");
  Metric predicted("plimsoll_rank_predicted_reserved_bytes", "Predicted peak of what PyTorch reserves.");
  Metric steps("plimsoll_rank_steps_total", "Optimizer steps done.", "counter");
  Metric seconds("plimsoll_rank_step_seconds", "Median seconds of a step.");
  Metric growth("plimsoll_rank_growth_bytes_per_step", "Growth per step where memory grows steadily, else 0.");
  for (const WatchedRank& rank : view.ranks) {
    const std::string labels = fmt::format("rank=\"{}\",host=\"{}\"", rank.rank, escaped(rank.host));
    allocated.add(labels, rank.allocated);
    reserved.add(labels, rank.reserved);
    peak.add(labels, rank.peak_reserved);
    if (rank.predicted) predicted.add(labels, *rank.predicted);
    steps.add(labels, rank.step);
    if (rank.step_seconds) seconds.add(labels, *rank.step_seconds);
    growth.add(labels, rank.trend.rising ? rank.trend.bytes_per_step : 0);
  }
  Metric available("plimsoll_host_available_bytes", "Host memory that can be had without swapping.");
  available.add("", view.sample.machine.available);
  Metric tree("plimsoll_host_run_bytes", "Host memory of the watched processes.");
  if (!view.sample.tree.processes.empty()) tree.add("", view.sample.tree.bytes());
  Metric charged("plimsoll_cgroup_bytes", "Charged to the memory group.");
  Metric limit("plimsoll_cgroup_limit_bytes", "Limit of the memory group.");
  Metric kills("plimsoll_cgroup_oom_kills_total", "Processes that the kernel ended for the limit.", "counter");
  if (view.sample.cgroup.version > 0) {
    charged.add("", view.sample.cgroup.current);
    if (view.sample.cgroup.limit > 0) limit.add("", view.sample.cgroup.limit);
    kills.add("", view.sample.cgroup.oom_kills);
  }
  std::string text;
  for (const Metric* metric : {&used, &total, &busy, &allocated, &reserved, &peak, &predicted, &steps, &seconds,
                               &growth, &available, &tree, &charged, &limit, &kills})
    text += metric->text();
  return text;
}

}  // namespace plimsoll::live
