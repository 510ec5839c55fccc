// SPDX-License-Identifier: Apache-2.0
// The collector's reading of how far a run is: markers, bars, steps and the memory that they show.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "why/collector.h"
#include "why/words.h"

namespace plimsoll::why {

namespace {

constexpr std::size_t kMostPoints = 2048;
constexpr std::size_t kMostSeries = 1024;
constexpr std::int64_t kEveryBar = 1024;  // bars are redrawn many times a second: of the later ones a few will do
constexpr std::int64_t kFewBars = 16;

}  // namespace

void Collector::set_marker(Phase phase, const Line& line, bool unfinished) {
  if (marker_ != phase && phase != Phase::kTrain) ++told_;  // that steps go on is no news
  marker_ = phase;
  marker_place_ = {line.file, line.number};
  marker_text_ = std::string{cut_text(line.text, 200)};
  marker_unfinished_ = unfinished;
}

void Collector::read_progress(const Line& line, Topics topics) {
  const std::string_view text = line.text;
  if (const auto bar = parse_bar(text)) {
    const Phase phase = phase_of_bar(*bar);
    if (phase == Phase::kTrain) {
      // A bar at zero says that the loop was entered, not that a step was done.
      entered_loop_ = true;
      if (bar->at > 0) add_step(line, step_of_bar(*bar, text, ++bars_ < kEveryBar || bars_ % kFewBars == 0));
      if (bar->at > 0 || marker_ == Phase::kLoad || marker_ == Phase::kUnknown)
        set_marker(Phase::kTrain, line, bar->is_unfinished());
    } else {
      set_marker(phase, line, bar->is_unfinished());
    }
    return;
  }
  // Batches that are evaluated are no steps of the training.
  if (counts_evaluation(text)) {
    set_marker(Phase::kEvaluate, line, true);
    return;
  }
  if (has(topics, Topic::kMarker)) {
    if (has_any(text, {"train_runtime", "training complete", "training finished", "training done"}))
      findings_.finished = true;
    const Phase phase = phase_of_marker(text);
    if (phase != Phase::kUnknown) set_marker(phase, line, false);
    // Ray prints late what several workers said: it was said before the failure that stands above it.
    if (phase != Phase::kUnknown && has_text(text, "across cluster"))
      for (auto event = findings_.events.rbegin(); event != findings_.events.rend(); ++event) {
        if (event->place.file != line.file || line.number - event->place.line > 2 * kNearLines) break;
        if (event->marker == Phase::kUnknown) event->marker = phase;
      }
    if (has_any(text, {"cuda graph", "cudagraph"}) && !has_any(text, {"disabled", "not ", "without", "warning:"}) &&
        !findings_.graphs_place) {
      findings_.graphs_place = Place{line.file, line.number};
      findings_.graphs_text = std::string{cut_text(text, 200)};
    }
    if (has_any(text, {"rollout", "wake_up", "waking", "sleep mode"})) findings_.engine_in_trainer = true;
  }
  if (const auto step = parse_step(text)) add_step(line, *step);
}

void Collector::add_step(const Line& line, const StepLine& step) {
  entered_loop_ = entered_loop_ || step.is_start;
  const bool counts = step.step.has_value() || step.memory.empty() || step.has_loss;
  const std::int64_t index = step.step.value_or(-1);
  if (counts && !step.is_start) {
    // Steps that begin again after a failure are those of a restart.
    if (failed_since_step_ && step.step && index <= findings_.last_step && findings_.attempt_ends.size() < 256)
      findings_.attempt_ends.push_back(findings_.steps);
    failed_since_step_ = false;
    if (!step.step || index != findings_.last_step || step.epoch != last_epoch_) ++findings_.steps;
    last_epoch_ = step.epoch;
    findings_.last_step_order = line.order;
    if (step.step) findings_.last_step = index;
    if (step.step && line.rank &&
        (findings_.last_steps.size() < kMostRanks || findings_.last_steps.contains(*line.rank)))
      findings_.last_steps[*line.rank] = index;
    if (marker_ != Phase::kTrain) set_marker(Phase::kTrain, line, false);
  }
  if (step.shape != 0 && shapes_.size() < 16 && shapes_.insert(step.shape).second) {
    findings_.shapes = static_cast<std::int64_t>(shapes_.size());
    findings_.shape_place = {line.file, line.number};
    findings_.shape_text = std::string{cut_text(line.text, 200)};
  }
  if (step.memory.empty()) return;
  const std::int64_t rank = line.rank.value_or(-1);
  auto found = series_of_.find(rank);
  if (found == series_of_.end()) {
    if (findings_.series.size() >= kMostSeries) return;
    found = series_of_.emplace(rank, findings_.series.size()).first;
    findings_.series.push_back({line.rank, {}, 1, 0, {}, {}});
  }
  StepSeries& series = findings_.series[found->second];
  if (!series.points.empty() && step.step && series.points.back().step == index) return;  // printed again
  if (series.seen++ % series.stride != 0) return;
  StepPoint point;
  point.step = index;
  point.order = line.order;
  point.place = {line.file, line.number};
  for (const MemoryFigure& figure : step.memory) {
    std::int64_t& slot = figure.gauge == Gauge::kAllocated  ? point.allocated
                         : figure.gauge == Gauge::kReserved ? point.reserved
                         : figure.gauge == Gauge::kPeak     ? point.peak
                         : figure.gauge == Gauge::kHost     ? point.host
                                                            : point.used;
    if (slot == 0) slot = figure.bytes;
  }
  series.points.push_back(point);
  series.last_text = std::string{cut_text(line.text, 200)};
  if (series.points.size() <= 2) series.first_text = series.last_text;
  if (series.points.size() < kMostPoints) return;
  for (std::size_t i = 0; i < series.points.size() / 2; ++i) series.points[i] = series.points[2 * i];
  series.points.resize(series.points.size() / 2);
  series.stride *= 2;
}

}  // namespace plimsoll::why
