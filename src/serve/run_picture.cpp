// SPDX-License-Identifier: Apache-2.0
#include "serve/run_picture.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "document/json_writer.h"

namespace plimsoll::serve {

namespace {

using document::JsonWriter;
using document::Layout;

std::string_view text_of(rl::SpanKind kind) {
  switch (kind) {
    case rl::SpanKind::kTrain:
      return "train";
    case rl::SpanKind::kSync:
      return "sync";
    case rl::SpanKind::kPaused:
      return "paused";
  }
  return {};
}

// The load changes with every request: of each short stretch only its highest is drawn.
void write_load(JsonWriter& json, const std::vector<rl::Load>& load) {
  constexpr std::size_t kMost = 3000;
  json.key("load").begin_array(Layout::kInline);
  const std::size_t stride = load.size() / kMost + 1;
  for (std::size_t i = 0; i < load.size(); i += stride) {
    const auto end = load.begin() + static_cast<std::ptrdiff_t>(std::min(i + stride, load.size()));
    const auto highest = std::max_element(load.begin() + static_cast<std::ptrdiff_t>(i), end,
                                          [](const rl::Load& a, const rl::Load& b) { return a.running < b.running; });
    json.begin_array().value(load[i].time).value(highest->running).end_array();
  }
  json.end_array();
}

}  // namespace

Result<std::string> run_json(const answer::RlInput& input, const lever::World& world) {
  PLIMSOLL_TRY(draft, answer::read_rl(input));
  answer::RlOptions options;
  options.timeline = true;
  PLIMSOLL_TRY(evaluated, answer::evaluate_rl(draft, world, options));
  const rl::Simulation& simulation = evaluated.evaluation.simulation;
  JsonWriter json;
  json.begin_object().key("spans").begin_array(Layout::kInline);
  constexpr std::size_t kMostSpans = 20'000;
  for (std::size_t i = 0; i < std::min(kMostSpans, simulation.spans.size()); ++i)
    json.begin_array()
        .value(text_of(simulation.spans[i].kind))
        .value(simulation.spans[i].begin)
        .value(simulation.spans[i].end)
        .end_array();
  json.end_array();
  write_load(json, simulation.load);
  json.key("assumed").begin_array();
  for (const std::string& warning : draft.warnings) json.value(warning);
  json.end_array().end_object();
  return fmt::format("{{\"schema\": 1, \"rl\": {}, \"timeline\": {}}}\n", answer::to_json(evaluated), json.take());
}

Result<std::string> splits_json(const answer::RlInput& input, const lever::World& world) {
  PLIMSOLL_TRY(draft, answer::read_rl(input));
  PLIMSOLL_TRY(now, answer::evaluate_rl(draft, world, {}));
  const rl::Run& run = now.run;
  JsonWriter json;
  json.begin_object().member("schema", 1).key("splits").begin_array();
  const std::int64_t all = run.trainer_gpus + run.inference_gpus;
  constexpr std::int64_t kMostSplits = 24;
  std::set<std::int64_t> servers;
  if (!run.is_colocated()) {
    servers.insert(run.inference_gpus);
    for (std::int64_t i = 1; i < kMostSplits; ++i) servers.insert(std::max<std::int64_t>(1, all * i / kMostSplits));
  }
  for (const std::int64_t inference : servers) {
    if (inference >= all) continue;
    answer::RlInput moved = input;
    std::erase_if(moved.settings, [](const auto& setting) {
      return setting.first == "inference_num_workers" || setting.first == "trainer_num_workers";
    });
    moved.settings.emplace_back("inference_num_workers", std::to_string(inference));
    moved.settings.emplace_back("trainer_num_workers", std::to_string(all - inference));
    auto other = answer::read_rl(moved);
    if (!other) continue;  // a split that the framework or a server's size refuses
    const auto evaluated = answer::evaluate_rl(*other, world, {});
    if (!evaluated) continue;
    json.begin_object(Layout::kInline)
        .member("inference_gpus", inference)
        .member("trainer_gpus", all - inference)
        .member("is_now", inference == run.inference_gpus)
        .member("tokens_per_second", evaluated->evaluation.simulation.tokens_per_second)
        .member("generate_seconds", evaluated->evaluation.balance.generate)
        .member("train_seconds", evaluated->evaluation.balance.train)
        .end_object();
  }
  return json.end_array().end_object().take();
}

Result<std::string> knobs_json(const answer::RlInput& input, const lever::World& world) {
  PLIMSOLL_TRY(draft, answer::read_rl(input));
  PLIMSOLL_TRY(evaluated, answer::evaluate_rl(draft, world, {}));
  return answer::to_json(answer::price_rl_knobs(draft, evaluated, world, {}, {}));
}

}  // namespace plimsoll::serve
