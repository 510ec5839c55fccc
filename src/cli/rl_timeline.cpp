// SPDX-License-Identifier: Apache-2.0
#include "cli/rl_timeline.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace plimsoll::cli {

namespace {

constexpr double kStepsShown = 6;

struct Window {
  double begin = 0;
  double end = 0;
  [[nodiscard]] double length() const { return end - begin; }
};

Window window_of(const rl::Simulation& simulation) {
  return {std::max(simulation.begin, simulation.end - kStepsShown * simulation.period), simulation.end};
}

// Mean number of running requests between two moments.
double mean_load(const std::vector<rl::Load>& load, double begin, double end) {
  auto at = std::upper_bound(load.begin(), load.end(), begin,
                             [](double time, const rl::Load& one) { return time < one.time; });
  double area = 0;
  double time = begin;
  double running = at == load.begin() ? 0 : static_cast<double>(std::prev(at)->running);
  for (; at != load.end() && at->time < end; ++at) {
    area += running * (at->time - time);
    time = at->time;
    running = static_cast<double>(at->running);
  }
  return (area + running * (end - time)) / (end - begin);
}

double most_running(const rl::Evaluation& evaluation) {
  double most = 1;
  for (const rl::Load& one : evaluation.simulation.load) most = std::max(most, static_cast<double>(one.running));
  return most;
}

}  // namespace

std::string timeline_text(const rl::Evaluation& evaluation, int width) {
  const rl::Simulation& simulation = evaluation.simulation;
  if (!(simulation.period > 0)) return {};
  const Window window = window_of(simulation);
  const auto columns = static_cast<std::size_t>(std::clamp(width > 0 ? width - 10 : 90, 20, 160));
  std::string trainer(columns, '.');
  std::string held(columns, ' ');
  const auto place = [&](double time) {
    return std::clamp((time - window.begin) / window.length(), 0.0, 1.0) * static_cast<double>(columns);
  };
  for (const rl::Span& span : simulation.spans) {
    if (span.end <= window.begin || span.begin >= window.end) continue;
    std::string& row = span.kind == rl::SpanKind::kPaused ? held : trainer;
    const char mark = span.kind == rl::SpanKind::kTrain ? '#' : span.kind == rl::SpanKind::kSync ? 's' : '-';
    const auto first = static_cast<std::size_t>(std::lround(place(span.begin)));
    const auto last = static_cast<std::size_t>(std::lround(place(span.end)));
    for (std::size_t i = first; i < std::min(columns, std::max(last, first + (mark == 's' ? 1 : 0))); ++i)
      row[i] = mark;
  }
  const double most = most_running(evaluation);
  std::string servers;
  for (std::size_t i = 0; i < columns; ++i) {
    const double step = window.length() / static_cast<double>(columns);
    const double begin = window.begin + static_cast<double>(i) * step;
    const double share = mean_load(simulation.load, begin, begin + step) / most;
    servers += share < 0.005 ? '.' : static_cast<char>('0' + std::min(9, static_cast<int>(10 * share)));
  }
  const auto trimmed = [](std::string text) {
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  std::string text =
      fmt::format("{:.1f} to {:.1f} s; # trains, s sends weights, . waits; 0 to 9 tenths of {:.0f} requests run\n",
                  window.begin, window.end, most);
  text += "trainer  " + trainer + '\n';
  text += "servers  " + servers + '\n';
  if (held.find('-') != std::string::npos) text += trimmed("held     " + held) + "\n         - nothing new may start\n";
  return text;
}

std::string timeline_svg(const rl::Evaluation& evaluation) {
  const rl::Simulation& simulation = evaluation.simulation;
  const Window window = simulation.period > 0 ? window_of(simulation) : Window{0, 1};
  constexpr double kWidth = 960;
  constexpr double kLeft = 80;
  constexpr double kHeight = 220;
  const auto x = [&](double time) { return kLeft + (time - window.begin) / window.length() * (kWidth - kLeft - 20); };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<title>Trainer and servers of a simulated run</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      kWidth, kHeight);
  svg += "<text x=\"10\" y=\"45\">trainer</text>\n<text x=\"10\" y=\"130\">servers</text>\n";
  for (const rl::Span& span : simulation.spans) {
    const double begin = std::max(span.begin, window.begin);
    const double end = std::min(span.end, window.end);
    if (end <= begin) continue;
    const bool held = span.kind == rl::SpanKind::kPaused;
    const char* fill = span.kind == rl::SpanKind::kTrain ? "#3b6ea5" : held ? "#b9b9b9" : "#d9822b";
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n", x(begin),
                       held ? 62 : 25, std::max(0.5, x(end) - x(begin)), held ? 6 : 32, fill);
  }
  const double most = most_running(evaluation);
  constexpr int kPoints = 400;
  std::string points;
  for (int i = 0; i < kPoints && simulation.period > 0; ++i) {
    const double step = window.length() / kPoints;
    const double begin = window.begin + i * step;
    const double share = mean_load(simulation.load, begin, begin + step) / most;
    points += fmt::format("{:.1f},{:.1f} ", x(begin + step / 2), 175 - 90 * share);
  }
  svg += fmt::format(
      "<polygon points=\"{:.1f},175 {}{:.1f},175\" fill=\"#7fb08a\" fill-opacity=\"0.6\" "
      "stroke=\"#3f7a4d\"/>\n",
      x(window.begin), points, x(window.end));
  svg += fmt::format(
      "<text x=\"{:.0f}\" y=\"195\">{:.1f} s</text>\n<text x=\"{:.0f}\" y=\"195\" text-anchor=\"end\">{:.1f} "
      "s</text>\n",
      kLeft, window.begin, kWidth - 20, window.end);
  svg += fmt::format(
      "<text x=\"{:.0f}\" y=\"212\">blue: trains, orange: sends weights, grey: nothing new may start, green: "
      "requests that run, of {:.0f}</text>\n</svg>\n",
      kLeft, most);
  return svg;
}

}  // namespace plimsoll::cli
