// SPDX-License-Identifier: Apache-2.0
// vllm:num_requests_running{engine="0",model_name="m"} 12.0 -> 12 running at the server with these labels.
#include "rl/observe/metric_names.h"
#include "rl/observe/readers.h"

namespace plimsoll::rl {

namespace {

constexpr std::size_t kMostServers = 4096;

std::optional<double>* slot_of(ServerSample& sample, Meaning meaning) {
  if (meaning == Meaning::kUsage) return &sample.usage;
  if (meaning == Meaning::kRunning) return &sample.running;
  if (meaning == Meaning::kWaiting) return &sample.waiting;
  return nullptr;
}

// Where labels that begin at `open` end: the first brace that no quotes hold; npos when there is none.
std::size_t end_of_labels(std::string_view line, std::size_t open) {
  bool quoted = false;
  for (std::size_t at = open + 1; at < line.size(); ++at) {
    if (quoted && line[at] == '\\')
      ++at;
    else if (line[at] == '"')
      quoted = !quoted;
    else if (line[at] == '}' && !quoted)
      return at;
  }
  return std::string_view::npos;
}

}  // namespace

bool ServerSeries::put(std::string_view server, Meaning meaning, double value, const Place& place, Measures& measures) {
  auto found = servers_.find(server);
  if (found == servers_.end()) {
    if (servers_.size() >= kMostServers) return true;
    found = servers_.emplace(std::string{server}, Server{}).first;
  }
  std::optional<double>* slot = slot_of(found->second.sample, meaning);
  if (slot == nullptr) return false;
  if (slot->has_value()) {
    measures.add_sample(found->second.sample, found->second.place);
    found->second.sample = {};
  }
  *slot = value;
  found->second.place = place;
  return true;
}

void ServerSeries::finish(Measures& measures) {
  for (const auto& [name, server] : servers_) measures.add_sample(server.sample, server.place);
  servers_.clear();
}

bool read_prometheus_line(std::string_view line, const Place& place, const std::string& file, ServerSeries& servers,
                          Measures& measures) {
  if (!line.starts_with("vllm:") && !line.starts_with("sglang:")) return false;
  const std::size_t end_of_name = line.find_first_of("{ \t");
  if (end_of_name == std::string_view::npos) return false;
  const std::string_view name = line.substr(0, end_of_name);
  const MetricName* metric = find_metric(name);
  if (metric == nullptr) return false;
  const bool has_labels = line[end_of_name] == '{';
  const std::size_t brace = has_labels ? end_of_labels(line, end_of_name) : 0;
  if (brace == std::string_view::npos) return false;
  const std::string_view labels = has_labels ? line.substr(end_of_name, brace - end_of_name + 1) : std::string_view{};
  const auto value = leading_number(line.substr(has_labels ? brace + 1 : end_of_name));
  if (!value || *value < 0) return false;
  if (metric->meaning == Meaning::kPreemptions) {
    measures.preemptions.add(file + "|" + std::string{name} + std::string{labels}, *value, place);
    return true;
  }
  return servers.put(labels, metric->meaning, *value, place, measures);
}

}  // namespace plimsoll::rl
