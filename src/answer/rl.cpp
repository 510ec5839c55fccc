// SPDX-License-Identifier: Apache-2.0
#include "answer/rl.h"

#include <algorithm>

#include <fmt/format.h>

#include "answer/words.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/usage.h"
#include "rl/frameworks/tools.h"
#include "rl/observe/amounts.h"

namespace plimsoll::answer {

namespace {

struct Read {
  std::optional<job::InputFile> file;  // our own format; a framework's configuration is in the settings
  rl::Settings settings;
  std::vector<std::string> warnings;
};

Result<Read> read_files(const RlInput& asked) {
  Read input;
  input.settings = asked.settings;
  if (asked.path.empty()) {
    const auto is_model = [](const auto& given) { return given.first == "model"; };
    if (std::any_of(asked.settings.begin(), asked.settings.end(), is_model)) return input;
    return usage_error("a run is missing; wanted a file, or --model and the other keys",
                       "plimsoll rl run.toml, or plimsoll rl --model qwen3-8b --gpu h100 --gpus 16 ...");
  }
  const std::string& path = asked.path;
  PLIMSOLL_TRY(text, read_file(path));
  const std::string name = path == "-" ? "standard input" : path;
  const auto framework = rl::recognise_config(text, name);
  const auto tool = framework ? std::nullopt : rl::recognise_tool(text);
  if (!framework && !tool) {
    input.file = job::InputFile{name, std::move(text)};
    return input;
  }
  auto config = tool ? rl::read_tool_settings(*tool, name, text, asked.settings)
                     : rl::read_config_settings(*framework, name, text, asked.settings);
  if (!config) return tl::make_unexpected(std::move(config.error()).with_context(name));
  input.warnings = config->assumed;
  if (!config->ignored.empty()) {
    constexpr std::size_t kNamed = 8;
    std::vector<std::string> named = config->ignored;
    const std::size_t more = named.size() > kNamed ? named.size() - kNamed : 0;
    named.resize(named.size() - more);
    input.warnings.push_back(
        fmt::format("{}: not read: {}{}", name, join(named, ", "), more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  rl::Settings settings = std::move(config->settings);
  for (const auto& given : asked.settings) {
    const rl::Key* key = rl::find_key(given.first);
    std::erase_if(settings, [&](const auto& one) {
      return one.first == given.first || (key != nullptr && rl::find_key(one.first) == key);
    });
    settings.push_back(given);
  }
  input.settings = std::move(settings);
  return input;
}

std::string reason_of(std::string_view key, const rl::Proposal& proposal) {
  const rl::Evaluation& answer = proposal.evaluation;
  const rl::Simulation& simulation = answer.simulation;
  if (key == "trainer_num_workers")
    return fmt::format("the trainer then waits {:.0f} % of the time", 100 * simulation.trainer_idle);
  if (key == "inference_num_workers") return "one server more or less is no faster";
  if (key == "inference_tensor_parallel_size")
    return fmt::format("leaves {} of KV cache on each GPU", format_bytes(answer.server.kv_bytes));
  if (key == "max_concurrent_prompts_per_server")
    return fmt::format("{:.0f} requests run on a server and fill {:.0f} % of its cache", simulation.mean_running,
                       100 * simulation.kv_usage);
  if (key == "max_async_rollout")
    return fmt::format("samples are {:.1f} steps old, {:.0f} % of the groups end too late", simulation.mean_staleness,
                       100 * simulation.late_share);
  if (key == "seq_len")
    return fmt::format("{} samples fill {} bins", answer.time.packed.samples, answer.time.packed.bins);
  return fmt::format("the fastest that fits: {} at its peak", format_bytes(answer.memory.peak()));
}

rl::EvaluationOptions how(const lever::World& world, const RlOptions& options) {
  rl::EvaluationOptions how;
  how.world = world;
  if (options.steps) how.simulation.steps = *options.steps;
  how.simulation.timeline = options.timeline;
  return how;
}

}  // namespace

Result<RlDraft> read_rl(const RlInput& asked) {
  PLIMSOLL_TRY(read, read_files(asked));
  if (!asked.framework.empty()) {
    std::erase_if(read.settings, [](const auto& given) { return given.first == "framework"; });
    read.settings.emplace_back("framework", asked.framework);
  }
  PLIMSOLL_TRY(run, rl::read_draft(read.file, read.settings));
  return RlDraft{std::move(run), read.file ? read.file->path : std::string{}, std::move(read.warnings)};
}

Result<RlAnswer> evaluate_rl(const RlDraft& draft, const lever::World& world, const RlOptions& options) {
  rl::Run run = draft.run;
  if (auto done = rl::complete(run); !done)
    return tl::make_unexpected(draft.path.empty() ? std::move(done.error())
                                                  : std::move(done.error()).with_context(draft.path));
  PLIMSOLL_TRY(evaluation, rl::evaluate(run, how(world, options)));
  return RlAnswer{std::move(run), std::move(evaluation)};
}

std::vector<rl::Priced> price_rl_knobs(const RlDraft& draft, const RlAnswer& answer, const lever::World& world,
                                       const RlOptions& options, const Progress& progress) {
  rl::EvaluationOptions without_timeline = how(world, options);
  without_timeline.simulation.timeline = false;
  return rl::price_knobs(draft.run, answer.run, answer.evaluation, rl::knobs_of(answer.run, answer.evaluation),
                         without_timeline, words_to(progress));
}

Result<rl::Plan> plan_rl(const RlDraft& draft, const lever::World& world, std::size_t keep, const Progress& progress) {
  rl::PlanOptions options;
  options.world = world;
  options.keep = keep;
  options.progress = words_to(progress);
  return rl::plan(draft.run, options);
}

std::vector<rl::KeyReason> reasons_of(const rl::Proposal& proposal) {
  std::vector<rl::KeyReason> reasons;
  for (const auto& [key, value] : proposal.settings) reasons.push_back({key, reason_of(key, proposal)});
  return reasons;
}

Result<rl::Observation> observe_rl(const ObserveQuestion& question, const lever::World& world) {
  rl::ObserveOptions options;
  double prompts = 0;
  double group = 1;
  for (const auto& [key, value] : question.settings) {
    if (key == "framework") {
      options.framework = rl::from_name<rl::Framework>(value);
      if (!options.framework)
        return usage_error(fmt::format("--framework is '{}'; wanted one of {}", value, rl::choices<rl::Framework>()),
                           did_you_mean(value, rl::choices<rl::Framework>()));
      continue;
    }
    const auto number = job::to_real(document::parse_scalar(value), {1, 1e9});
    if (key == "max_concurrent_prompts_per_server" && number) prompts = *number;
    if (key == "group_size" && number) group = *number;
  }
  if (prompts > 0) options.lanes = prompts * group;
  PLIMSOLL_TRY(observation, rl::observe_files(question.files, options));
  if (question.run) {
    PLIMSOLL_TRY(draft, read_rl(*question.run));
    PLIMSOLL_TRY_STATUS(rl::add_amounts(draft.run, how(world, {}), observation));
  }
  return observation;
}

std::string describe_trainer(const rl::Run& run) {
  return fmt::format("{}, {}", job::name_of(run.trainer.framework), describe_split(run.trainer));
}

}  // namespace plimsoll::answer
