// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "rl/observe/metric_names.h"
#include "rl/observe/readers.h"

namespace plimsoll::rl {

namespace {

// "step:12 - timing_s/gen:35.2 - rollouter/idle_ratio:0.31": verl's console.
bool read_pairs(std::string_view line, const Place& place, const std::string& file, Measures& measures) {
  const std::size_t start = line.find("step:");
  if (start == std::string_view::npos || line.find(" - ", start) == std::string_view::npos) return false;
  StepValues step;
  std::string_view rest = line.substr(start);
  while (!rest.empty()) {
    const std::size_t end = rest.find(" - ");
    const std::string_view pair = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 3);
    const std::size_t colon = pair.rfind(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = trim(pair.substr(0, colon));
    std::string_view number = pair.substr(colon + 1);
    if (const std::size_t bracket = number.find('('); number.find("np.float") != std::string_view::npos)
      number = number.substr(bracket + 1);  // np.float64(0.31)
    const auto value = leading_number(number);
    const MetricName* metric = value ? find_metric(name) : nullptr;
    if (metric != nullptr) add_metric(*metric, *value, file + "|" + std::string{name}, place, step, measures);
  }
  if (!step.any) return false;
  add_step(step, place, measures);
  return true;
}

// "  * exposed_generation: 3.20s (25.0%)": NeMo-RL's table of a step; the share is already there.
bool read_share(std::string_view line, const Place& place, Measures& measures) {
  struct Row {
    std::string_view label;
    Tally Measures::* tally;
  };
  static constexpr Row kRows[] = {
      {"exposed_generation: ", &Measures::trainer_wait},
      {"weight_sync: ", &Measures::weight_sync},
      {"prepare_for_generation/transfer_and_update_weights: ", &Measures::weight_sync},
      {"idle/generation_limit_pause: ", &Measures::rollout_paused},
  };
  for (const Row& row : kRows) {
    const std::size_t at = line.find(row.label);
    if (at == std::string_view::npos) continue;
    const auto percent = number_after(line.substr(at), "s (");
    if (!percent || line.find('%', at) == std::string_view::npos || *percent > 100 || *percent < 0) return false;
    measures.vote(Framework::kNemoRl);
    (measures.*row.tally).add(*percent / 100, place);
    return true;
  }
  if (const auto percent = number_after(line, "Training Worker Idle Time Ratio: "); percent && *percent <= 100) {
    measures.vote(Framework::kNemoRl);
    measures.trainer_wait.add(*percent / 100, place);
    return true;
  }
  return false;
}

}  // namespace

bool read_console_line(std::string_view line, const Place& place, const std::string& file, Measures& measures) {
  if (line.find("Rollout paused: async level") != std::string_view::npos) {
    measures.vote(Framework::kTelescope);
    measures.pause_events.add(1, place);
    return true;
  }
  return read_pairs(line, place, file, measures) || read_share(line, place, measures);
}

}  // namespace plimsoll::rl
