// SPDX-License-Identifier: Apache-2.0
#include "why/pace.h"

#include <algorithm>

#include "base/text.h"
#include "why/block_reader.h"
#include "why/line.h"
#include "why/pace_line.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class PaceReader {
 public:
  explicit PaceReader(std::string_view name) { pace_.file = std::string(name); }

  void add_line(std::string_view raw) {
    ++number_;
    Line line;
    clean_line(raw, scratch_, line);
    const std::string_view text = line.text;
    if (in_timers_) {
      if (auto timer = parse_timer(text)) {
        add_timer(*timer);
        return;
      }
      in_timers_ = false;
    }
    if (begins_timers(text)) {
      in_timers_ = true;
      return;
    }
    if (const auto point = parse_pace(text)) {
      add_point(*point);
      if (point->data) add_timer({"data_time", *point->data, *point->data});
    }
    if (const auto mfu = parse_mfu(text)) pace_.mfu = mfu;
    if (const PaceReason* reason = reason_in(text)) add_sign(*reason, text);
  }

  Pace take(std::string damage) {
    // A log in which several formats speak of the same steps is read by the one that says most.
    std::string best;
    for (const auto& [format, points] : points_)
      if (best.empty() || points.size() > points_[best].size()) best = format;
    pace_.format = best;
    if (!best.empty()) pace_.points = std::move(points_[best]);
    pace_.damage = std::move(damage);
    return std::move(pace_);
  }

 private:
  void add_point(const PaceLine& line) {
    std::vector<PacePoint>& points = points_[std::string(line.format)];
    std::int64_t& counted = counted_[std::string(line.format)];
    ++counted;
    PacePoint point{line.step.value_or(counted), line.seconds, line.tokens, line.samples, number_};
    if (line.elapsed) {
      // The clock of a bar has whole seconds: differences count over as many steps as it takes to be worth one.
      const bool goes_on = bar_of_ == line.of && bar_step_ && point.step > *bar_step_ && *line.elapsed >= bar_elapsed_;
      if (!goes_on) {
        bar_of_ = line.of;
        bar_step_ = point.step;
        bar_elapsed_ = *line.elapsed;
        return;
      }
      constexpr double kWorth = 10;  // seconds, so that a second is a tenth of it
      if (*line.elapsed - bar_elapsed_ < kWorth) return;
      point.seconds = (*line.elapsed - bar_elapsed_) / static_cast<double>(point.step - *bar_step_);
      bar_step_ = point.step;
      bar_elapsed_ = *line.elapsed;
    }
    // Ranks print the same step: the slowest counts.
    if (!points.empty() && points.back().step == point.step && line.step) {
      points.back().seconds = std::max(points.back().seconds, point.seconds);
      return;
    }
    if (points.size() >= kMostPacePoints) thin(points);
    points.push_back(point);
  }

  static void thin(std::vector<PacePoint>& points) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < points.size(); i += 2) points[kept++] = points[i];
    points.resize(kept);
  }

  void add_timer(const TimerLine& line) {
    auto found = std::find_if(pace_.timers.begin(), pace_.timers.end(),
                              [&line](const PaceTimer& timer) { return timer.name == line.name; });
    constexpr std::size_t kMostTimers = 200;
    constexpr std::size_t kMostReports = 10'000;
    if (found == pace_.timers.end()) {
      if (pace_.timers.size() >= kMostTimers) return;
      pace_.timers.push_back({line.name, {}, {}});
      found = pace_.timers.end() - 1;
    }
    if (found->most.size() >= kMostReports) return;
    found->least.push_back(line.least);
    found->most.push_back(line.most);
  }

  void add_sign(const PaceReason& reason, std::string_view text) {
    for (PaceSign& sign : pace_.signs)
      if (sign.id == reason.id) {
        ++sign.count;
        return;
      }
    constexpr std::size_t kMostText = 300;
    pace_.signs.push_back({reason.id, reason.says, reason.fix, number_, std::string(cut_text(text, kMostText)), 1});
  }

  Pace pace_;
  std::map<std::string, std::vector<PacePoint>> points_;
  std::map<std::string, std::int64_t> counted_;
  std::string scratch_;
  std::int64_t number_ = 0;
  bool in_timers_ = false;
  std::optional<std::int64_t> bar_of_;
  std::optional<std::int64_t> bar_step_;
  double bar_elapsed_ = 0;
};

// Lines end with a newline; a bar draws over itself with a carriage return.
std::size_t add_lines(std::string_view text, bool is_last, PaceReader& reader) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n' && text[i] != '\r') continue;
    if (i > begin) reader.add_line(text.substr(begin, i - begin));
    begin = i + 1;
  }
  if (is_last && begin < text.size()) {
    reader.add_line(text.substr(begin));
    begin = text.size();
  }
  return begin;
}

}  // namespace

double PaceTimer::median_most() const { return median(most); }

double PaceTimer::median_spread() const {
  std::vector<double> spreads;
  for (std::size_t i = 0; i < most.size(); ++i) spreads.push_back(most[i] - least[i]);
  return median(std::move(spreads));
}

Pace read_pace_text(std::string_view name, std::string_view text) {
  PaceReader reader(name);
  add_lines(text, true, reader);
  return reader.take({});
}

Result<Pace> read_pace(const std::string& path) {
  PLIMSOLL_TRY(blocks, BlockReader::open(path));
  PaceReader reader(path);
  constexpr std::size_t kBlock = 1 << 20;
  constexpr std::size_t kLongestLine = 8 << 20;
  std::string text;
  while (true) {
    PLIMSOLL_TRY(got, blocks.append(text, kBlock));
    const std::size_t used = add_lines(text, got == 0, reader);
    text.erase(0, used);
    if (text.size() > kLongestLine) text.clear();  // no logger writes such a line
    if (got == 0) break;
  }
  return reader.take(blocks.damage());
}

}  // namespace plimsoll::why
