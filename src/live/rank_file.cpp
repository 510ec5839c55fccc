// SPDX-License-Identifier: Apache-2.0
#include "live/rank_file.h"

#include <algorithm>
#include <atomic>
#include <tuple>

#include <fmt/format.h>

#include "base/crew.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"
#include "live/nodes.h"

namespace plimsoll::live {

namespace {

using document::Node;

constexpr std::size_t kMostSteps = 1024;  // of one rank: thousands of them stay below a gigabyte
constexpr std::int64_t kMostFile = 256LL << 20;
constexpr std::size_t kMostFrames = 64;

// Far above any device and any run; sums of a few such numbers cannot overflow.
constexpr std::int64_t kMostCount = std::int64_t{1} << 50;

std::int64_t count_in(const Node& line, std::string_view key) {
  return std::clamp<std::int64_t>(integer_in(line, key).value_or(0), 0, kMostCount);
}

void take_counters(const Node& line, RankRun& run) {
  run.peak_allocated = std::max(run.peak_allocated, count_in(line, "peak_allocated"));
  run.peak_reserved = std::max(run.peak_reserved, count_in(line, "peak_reserved"));
  run.inactive_most = std::max(run.inactive_most, count_in(line, "inactive"));
  run.retries = std::max(run.retries, count_in(line, "retries"));
  run.rss_most = std::max({run.rss_most, count_in(line, "rss_most"), count_in(line, "rss")});
  if (line.has("outside")) run.outside = std::max(run.outside.value_or(0), count_in(line, "outside"));
}

void take_begin(const Node& line, RankRun& run) {
  run.rank = count_in(line, "rank");
  run.world = std::max<std::int64_t>(1, count_in(line, "world"));
  run.local_rank = count_in(line, "local_rank");
  run.pid = count_in(line, "pid");
  run.restart = count_in(line, "restart");
  run.host = printable(text_in(line, "host"), 120);
  run.torch = printable(text_in(line, "torch"), 60);
  run.device_name = printable(text_in(line, "device_name"), 120);
  run.uuid = text_in(line, "uuid");
  run.device = line.has("device") ? count_in(line, "device") : -1;
  run.total = count_in(line, "total");
  if (const Node* settings = line.find("settings"); settings != nullptr)
    for (const auto& [name, value] : settings->members)
      if (value.is_string()) run.settings[name] = printable(value.text, 400);
}

void take_step(const Node& line, RankRun& run) {
  StepReading step;
  step.step = count_in(line, "n");
  step.count = std::max<std::int64_t>(1, count_in(line, "count"));
  step.at = real_in(line, "t").value_or(0);
  step.seconds = std::max(0.0, real_in(line, "seconds").value_or(0));
  step.backward = real_in(line, "backward").value_or(0);
  step.optimizer = real_in(line, "optimizer").value_or(0);
  step.allocated = count_in(line, "allocated");
  step.reserved = count_in(line, "reserved");
  step.used = count_in(line, "used");
  step.rss = count_in(line, "rss");
  run.steps_done = std::max(run.steps_done, step.step);
  take_counters(line, run);
  // Every line counts at first; when there are too many, every second of those kept goes.
  run.steps.push_back(step);
  if (run.steps.size() < kMostSteps) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < run.steps.size(); i += 2) run.steps[kept++] = run.steps[i];
  run.steps.resize(kept);
}

void take_oom(const Node& line, RankRun& run) {
  OutOfMemoryReading oom;
  oom.step = count_in(line, "step");
  oom.phase = printable(text_in(line, "phase"), 40);
  oom.requested = count_in(line, "requested");
  oom.total = count_in(line, "total");
  oom.free = count_in(line, "free");
  oom.allocated = count_in(line, "allocated");
  oom.reserved = count_in(line, "reserved");
  if (const Node* stack = line.find("stack"); stack != nullptr)
    for (const Node& frame : stack->items)
      if (frame.is_string() && oom.stack.size() < kMostFrames) oom.stack.push_back(printable(frame.text, 400));
  take_counters(line, run);
  run.oom = std::move(oom);
}

// A name of a file in the same folder, never a path.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.find('/') == std::string_view::npos && name != "." && name != "..";
}

void take_event(const Node& line, RankRun& run) {
  const std::string event = text_in(line, "event");
  if (event == "begin") {
    take_begin(line, run);
  } else if (event == "step") {
    take_step(line, run);
  } else if (event == "oom") {
    take_oom(line, run);
  } else if (event == "snapshot") {
    if (const std::string name = text_in(line, "file"); is_plain_name(name)) run.snapshot = name;
  } else if (event == "history") {
    run.history_given_up = count_in(line, "allocations_per_second");
  } else if (event == "error") {
    run.error_type = printable(text_in(line, "type"), 120);
    run.error = printable(text_in(line, "message"), 2000);
    run.error_time = real_in(line, "time").value_or(0);
  } else if (event == "end") {
    run.ended = true;
    run.steps_done = std::max(run.steps_done, count_in(line, "steps"));
    run.trouble = printable(text_in(line, "trouble"), 400);
    const Node* gave_up = line.find("gave_up");
    run.gave_up = gave_up != nullptr && gave_up->is_bool() && gave_up->boolean;
    take_counters(line, run);
  }
}

}  // namespace

std::optional<double> RankRun::step_seconds() const {
  std::vector<double> seconds;
  for (const StepReading& step : steps)
    if (step.step > 2 && step.seconds > 0) seconds.push_back(step.seconds);
  if (seconds.empty())
    for (const StepReading& step : steps)
      if (step.step == 2 && step.seconds > 0) seconds.push_back(step.seconds);
  if (seconds.empty()) return std::nullopt;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

void RankReader::take_line(std::string_view line) {
  if (trim(line).empty()) return;
  const auto node = document::parse_json(line);
  if (!node || !node->is_object() || !node->has("event")) {
    ++run_.bad_lines;
    return;
  }
  ++good_lines_;
  take_event(*node, run_);
}

void RankReader::feed(std::string_view text) {
  constexpr std::size_t kLongestLine = 1 << 20;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    rest_ += text.substr(0, end);
    take_line(rest_);
    rest_.clear();
    text.remove_prefix(end + 1);
  }
  if (rest_.size() + text.size() <= kLongestLine) rest_ += text;
}

void RankReader::end() {
  take_line(rest_);
  rest_.clear();
}

Result<RankRun> read_rank(const std::string& name, std::string_view text) {
  RankReader reader(name);
  reader.feed(text);
  reader.end();
  if (!reader.is_rank())
    return bad_input(fmt::format("{}: no line of it is a record of a rank", name),
                     "wanted what plimsoll run writes: lines of JSON with an \"event\"");
  return reader.take();
}

std::vector<RankRun> read_ranks(const std::string& folder, std::vector<std::string>& problems) {
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("rank-") || !name.ends_with(".jsonl"); });
  std::vector<std::optional<Result<RankRun>>> read(names.size());
  std::atomic<std::size_t> next{0};
  share_work(0, [&](unsigned) {
    for (std::size_t i = next++; i < names.size(); i = next++) {
      const std::string path = folder + "/" + names[i];
      const Status regular = check_regular_file(path);  // a pipe would be waited for
      const auto text =
          regular ? read_file(path, kMostFile) : Result<std::string>{tl::make_unexpected(regular.error())};
      read[i] = text ? read_rank(names[i], *text) : Result<RankRun>{tl::make_unexpected(text.error())};
    }
  });
  std::vector<RankRun> runs;
  for (std::optional<Result<RankRun>>& run : read) {
    if (!run) continue;
    if (*run)
      runs.push_back(std::move(**run));
    else
      problems.push_back(to_string(run->error()));
  }
  std::sort(runs.begin(), runs.end(),
            [](const RankRun& a, const RankRun& b) { return std::tie(a.rank, a.file) < std::tie(b.rank, b.file); });
  return runs;
}

}  // namespace plimsoll::live
