// SPDX-License-Identifier: Apache-2.0
#include "rl/trainer_choice.h"

#include <algorithm>
#include <memory>

#include "base/checked.h"
#include "base/interrupt.h"
#include "job/keys.h"
#include "rl/frameworks/config.h"

namespace plimsoll::rl {

namespace {

// Rows of the plan that are priced on bins as full as they are; the plan itself takes full ones.
constexpr std::size_t kRows = 5;

// What follows from the run: the search sets it, a run's file does not.
bool follows_from_run(std::string_view key) {
  return key == "micro_batch_size" || key == "gradient_accumulation_steps";
}

// In words of the run: PyTorch's trainers have one switch for recomputation.
job::Settings spoken(const Run& run, const job::Settings& settings) {
  job::Settings words = settings;
  if (!job::facts_of(run.trainer_framework).runs_hub_models) return words;
  for (auto& [key, value] : words) {
    if (key != "recompute_granularity") continue;
    key = "gradient_checkpointing";
    value = value == "none" ? "false" : "true";
  }
  return words;
}

std::optional<TrainerChoice> fastest_row(const Run& run, const plan::Plan& plan, const Packed& packed,
                                         const lever::World& world) {
  std::optional<TrainerChoice> best;
  for (const plan::Found& row : plan.best) {
    auto time = trainer_time(run, row.job, packed, world);
    if (!time || (best && time->seconds >= best->time.seconds)) continue;
    best = TrainerChoice{{}, row.job, *std::move(time), false};
    for (const auto& setting : spoken(run, row.settings))
      if (!follows_from_run(setting.first) && !run.has(setting.first)) best->settings.push_back(setting);
  }
  return best;
}

std::optional<TrainerChoice> choose(const Run& run, std::int64_t gpus, const Packed& packed, const lever::World& world,
                                    Look look, plan::Counts& counts) {
  const auto question = trainer_question(run, gpus, packed, look);
  if (!question) return std::nullopt;
  const plan::Beside beside = {
      [&run](const job::Job& job, std::int64_t step) { return least_beside_step(run, job, step); },
      [&run](const job::Job& job, const memory::RankAnswer& worst) { return beside_step(run, job, worst); }};
  plan::SearchOptions options;
  options.keep = look == Look::kCoarse ? 1 : kRows;
  if (look == Look::kCoarse) options.simulated = 16;
  options.world = &world;
  options.beside = &beside;
  options.stop = &stop_flag();
  const auto plan = plan::plan_for(*question, options);
  if (!plan) {
    ++counts.considered;
    ++counts.refused;
    return std::nullopt;
  }
  counts.add(plan->counts);
  return fastest_row(run, *plan, packed, world);
}

}  // namespace

bool Sayable::operator()(const Settings& settings) {
  const auto [entry, is_new] = known_.try_emplace(settings, false);
  if (is_new) entry->second = can_be_told(run_, spoken(run_, settings));
  return entry->second;
}

Result<plan::Question> trainer_question(const Run& run, std::int64_t gpus, const Packed& packed, Look look) {
  Run on_these = run;
  on_these.trainer_gpus = gpus;
  PLIMSOLL_TRY(request, trainer_request(on_these));
  plan::Question question{std::move(request), {}, {}, {}};
  for (const std::string& key : run.given) question.pinned.insert(job::canonical_name(key));
  for (const char* key : {"seq_length", "micro_batch_size", "gradient_accumulation_steps", "global_batch_size"})
    question.pinned.insert(key);
  if (run.loss_chunk > 0)
    for (const char* key : {"loss", "loss_chunks"}) question.pinned.insert(key);
  question.space.coarse = look == Look::kCoarse;
  question.space.batch_to_fill = ceil_div(std::max<std::int64_t>(1, packed.bins), run.algorithm.minibatches);
  if (run.framework != Framework::kGeneric)
    question.space.can_say = [sayable = std::make_shared<Sayable>(run)](const job::Settings& settings) {
      return (*sayable)(settings);
    };
  return question;
}

std::vector<lever::Change> trainer_changes(const Run& run) {
  // Of those that change numbers, what a run can do without being another run.
  const auto is_meant = [](const lever::Change& change) {
    return lever::lever_of(change).lossless || change.lever == "fp8" || change.lever == "gradients-bf16";
  };
  std::vector<lever::Change> changes;
  for (lever::Change& change :
       lever::changes_of(run.trainer, {.only_usual = false, .lossless = true, .science = true})) {
    const auto sets = [&change](std::string_view key) {
      return std::any_of(change.settings.begin(), change.settings.end(),
                         [key](const auto& one) { return one.first == key; });
    };
    if (!is_meant(change) || sets("micro_batch_size") || sets("seq_length")) continue;
    std::erase_if(change.settings,
                  [](const auto& one) { return follows_from_run(one.first) || one.first == "global_batch_size"; });
    if (change.settings.empty() || !can_be_told(run, spoken(run, change.settings))) continue;
    change.settings = spoken(run, change.settings);
    changes.push_back(std::move(change));
  }
  return changes;
}

std::optional<TrainerChoice> choose_trainer(const Run& run, std::int64_t gpus, const Packed& packed,
                                            const lever::World& world, Look look, plan::Counts& counts) {
  Run on_these = run;
  on_these.trainer_gpus = gpus;
  auto choice = choose(on_these, gpus, packed, world, look, counts);
  // The whole model gathered on one GPU may be all that is in the way.
  const bool can_stage = run.framework == Framework::kTelescope && !run.sync.cpu_staging &&
                         !run.has("weight_broadcast_cpu_staging") && !interrupted();
  if (choice || !can_stage) return choice;
  on_these.sync.cpu_staging = true;
  choice = choose(on_these, gpus, packed, world, look, counts);
  if (choice) {
    choice->stages = true;
    choice->settings.emplace_back("weight_broadcast_cpu_staging", "true");
  }
  return choice;
}

}  // namespace plimsoll::rl
