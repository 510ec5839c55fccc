// SPDX-License-Identifier: Apache-2.0
// One JSON object per line: {"step": 3, "data": {"timing_s/gen": 35.2}} (verl's file logger), flat or nested metrics
// of the others, {"metric": "cache_usage", "value": 0.4} and events (Telescope).
#include <cctype>

#include "document/node.h"
#include "rl/observe/metric_names.h"
#include "rl/observe/readers.h"

namespace plimsoll::rl {

namespace {

using document::Node;

struct Target {
  const Place& place;
  const std::string& file;
  StepValues step;
  Measures& measures;
};

void add_number(std::string_view name, double value, Target& target) {
  if (const MetricName* metric = find_metric(name))
    add_metric(*metric, value, target.file + "|" + std::string{name}, target.place, target.step, target.measures);
}

// Nested tables join their names with '/'.
void flatten(const Node& node, const std::string& prefix, Target& target) {
  for (const auto& [key, value] : node.members) {
    const std::string name = prefix.empty() ? key : prefix + "/" + key;
    if (value.is_object()) {
      flatten(value, name, target);
    } else if (value.is_number()) {
      add_number(name, value.as_real(), target);
    }
  }
}

std::optional<double> number_of(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->as_real();
}

std::string_view text_in(const Node& node, std::string_view key) {
  const Node* found = node.find(key);
  return found != nullptr && found->is_string() ? std::string_view{found->text} : std::string_view{};
}

bool read_event(const Node& node, const Place& place, Timeline& timeline, Measures& measures) {
  Timeline::Event event;
  event.type = text_in(node, "event_type");
  if (event.type.empty()) return false;
  event.source = text_in(node, "source");
  event.time = number_of(node, "timestamp");
  event.start = number_of(node, "start_time");
  event.end = number_of(node, "end_time");
  event.depth = number_of(node, "depth").value_or(0);
  event.rank = number_of(node, "rank").value_or(-1);
  return timeline.add(event, place, measures);
}

// {"metric": "cache_usage", "value": 0.4, "server": 1}
bool read_row(const Node& node, ServerSeries& servers, Target& target) {
  std::string_view name = text_in(node, "metric");
  if (name.empty()) name = text_in(node, "metric_name");
  const auto value = number_of(node, "value");
  if (name.empty() || !value) return false;
  const MetricName* metric = find_metric(name);
  if (metric == nullptr) return false;
  const std::string server = std::to_string(number_of(node, "server").value_or(0));
  const std::string series = target.file + "|" + std::string{name} + "|" + server;
  StepValues ignored;  // gauges of a server come one per line
  add_metric(*metric, *value, series, target.place, ignored, target.measures);
  if (*value >= 0) servers.put(server, metric->meaning, *value, target.place, target.measures);
  return true;
}

// Python writes NaN and Infinity into its JSON, which has no such words: they become null, and are counted.
std::string without_not_finite(std::string_view line, std::int64_t& count) {
  constexpr std::string_view kWords[] = {"NaN", "nan", "-Infinity", "Infinity", "-inf", "inf"};
  std::string clean;
  clean.reserve(line.size());
  bool in_text = false;
  while (!line.empty()) {
    const char c = line.front();
    if (in_text && c == '\\' && line.size() > 1) {
      clean += line.substr(0, 2);
      line.remove_prefix(2);
      continue;
    }
    if (c == '"') in_text = !in_text;
    const std::string_view* word = nullptr;
    const bool starts_word = clean.empty() || std::isalnum(static_cast<unsigned char>(clean.back())) == 0;
    if (!in_text && starts_word)
      for (const std::string_view& candidate : kWords)
        if (word == nullptr && line.starts_with(candidate)) word = &candidate;
    if (word != nullptr) {
      ++count;
      clean += "null";
      line.remove_prefix(word->size());
      continue;
    }
    clean += c;
    line.remove_prefix(1);
  }
  return clean;
}

}  // namespace

JsonLine read_json_line(std::string_view line, const Place& place, const std::string& file, Timeline& timeline,
                        ServerSeries& servers, Measures& measures) {
  auto parsed = document::parse_json(line);
  if (!parsed) {
    std::int64_t count = 0;
    const std::string clean = without_not_finite(line, count);
    if (count > 0) parsed = document::parse_json(clean);
    if (count > 0 && parsed) {
      if (measures.not_finite == 0) measures.first_not_finite = place;
      measures.not_finite += count;
    }
  }
  if (!parsed || !parsed->is_object()) return JsonLine::kBroken;
  if (read_event(*parsed, place, timeline, measures)) return JsonLine::kUnderstood;
  Target target{place, file, {}, measures};
  if (read_row(*parsed, servers, target)) return JsonLine::kUnderstood;
  flatten(*parsed, "", target);
  if (!target.step.any) return JsonLine::kIrrelevant;
  add_step(target.step, place, measures);
  return JsonLine::kUnderstood;
}

}  // namespace plimsoll::rl
