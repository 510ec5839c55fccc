// SPDX-License-Identifier: Apache-2.0
#include "rl/plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/crew.h"
#include "base/interrupt.h"
#include "rl/frameworks/config.h"
#include "rl/keys.h"
#include "rl/planner.h"

namespace plimsoll::rl {

void Planner::refuse(const std::string& why) {
  ++refusals_[why];
  ++plan_.counts.refused;
}

// A first split that the trainer accepts.
Status Planner::find_base() {
  Run first = draft_;
  auto done = complete(first);
  const std::int64_t unit = draft_.gpus_per_server();
  for (std::int64_t serving = unit; !done && serving < draft_.cluster.gpus; serving += unit) {
    first = draft_;
    if (is_open("inference_num_workers")) first.inference_gpus = serving;
    if (is_open("trainer_num_workers")) first.trainer_gpus = 0;
    if (complete(first)) done = {};
  }
  if (!done) return done;
  base_ = std::move(first);
  return {};
}

Settings Planner::settings_of(const Point& point) const {
  Settings settings;
  const auto add = [&](const char* key, std::int64_t value) {
    if (is_open(key)) settings.emplace_back(key, std::to_string(value));
  };
  if (!base_.is_colocated()) {
    add("trainer_num_workers", base_.cluster.gpus - point.inference_gpus);
    add("inference_num_workers", point.inference_gpus);
  }
  add("inference_tensor_parallel_size", point.tensor);
  if (point.prompts > 0) add("max_concurrent_prompts_per_server", point.prompts);
  add("seq_len", point.seq_len);
  if (is_open("max_async_rollout") && base_.staleness.mode == Mode::kAsync)
    settings.emplace_back("max_async_rollout", fmt::format("{:g}", point.limit));
  for (const auto& setting : point.trainer->settings) settings.push_back(setting);
  return settings;
}

Result<Proposal> Planner::propose(const Point& point) const {
  Proposal proposal;
  proposal.settings = settings_of(point);
  proposal.run = draft_;
  Run& run = proposal.run;
  for (const auto& [key, value] : proposal.settings) {
    PLIMSOLL_TRY_STATUS(set_key(run, key, document::parse_scalar(value)));
    if (is_open(key)) run.given.erase(key);
  }
  run.inference_gpus = point.inference_gpus;
  run.trainer_gpus = base_.is_colocated() ? point.inference_gpus : base_.cluster.gpus - point.inference_gpus;
  if (base_.staleness.mode == Mode::kAsync) run.staleness.limit = point.limit;
  run.warnings.clear();
  PLIMSOLL_TRY_STATUS(complete(run));
  EvaluationOptions options;
  options.world = options_.world;
  options.simulation = options_.simulation;
  PLIMSOLL_TRY(evaluation, evaluate(run, options));
  proposal.evaluation = std::move(evaluation);
  return proposal;
}

std::vector<Result<Proposal>> Planner::propose_all(const std::vector<Point>& points) {
  std::vector<Result<Proposal>> answers(points.size(), Result<Proposal>{});
  std::atomic<std::size_t> next{0};
  share_work(0, [&](unsigned) {
    for (std::size_t i = next++; i < points.size(); i = next++) answers[i] = propose(points[i]);
  });
  plan_.counts.simulated += points.size();
  for (const Result<Proposal>& answer : answers)
    if (answer) events_ += answer->evaluation.simulation.events;
  if (options_.progress) options_.progress(fmt::format("simulated {} settings", plan_.counts.simulated));
  return answers;
}

// Whether a split can be faster than the best by the closed form, judged by a coarse look at its trainer.
bool Planner::is_worth_planning(const Point& point) {
  constexpr double kGain = 1.05;  // of a whole look over a coarse one, at most
  const auto server = servers_.find(point.tensor);
  if (server == servers_.end()) return false;
  const std::int64_t training = base_.cluster.gpus - point.inference_gpus;
  Run run = base_;
  run.server.tensor = point.tensor;
  run.inference_gpus = point.inference_gpus;
  const auto loop = std::make_shared<const Loop>(make_loop(run, server->second, {}, {}));
  const auto prompts = std::make_shared<const std::vector<std::int64_t>>(1, point.prompts);
  const Site site{point.tensor, point.inference_gpus, training, point.seq_len, loop, prompts};
  const auto& planned = trainers_of(point.seq_len).whole;
  if (planned.contains(training)) return true;
  if (whole_points_ > kMostWholePoints || hoped(site) < best_.tokens_per_second) return false;
  const TrainerChoice* trainer = trainer_for(point.seq_len, training, Look::kCoarse);
  if (trainer == nullptr) return false;
  TrainerTime time = trainer->time;
  time.seconds /= kGain;
  return rate(site, time, {}, nullptr, nullptr) >= best_.tokens_per_second;
}

// One server, a quarter of the lanes, or one batch of staleness at a time, until nothing is faster. What makes samples
// older must be faster by a hundredth.
void Planner::climb() {
  const std::int64_t all = base_.cluster.gpus;
  const bool split_open = !base_.is_colocated() && is_open("inference_num_workers") && is_open("trainer_num_workers");
  for (std::size_t moves = 0; moves < options_.moves; ++moves) {
    std::vector<Point> points;
    const std::int64_t unit = std::lcm(best_.tensor * base_.server.pipeline, pool_unit(base_));
    for (const std::int64_t step : {-unit, unit}) {
      Point point = best_;
      point.inference_gpus += step;
      if (!split_open || point.inference_gpus < unit || point.inference_gpus >= all) continue;
      if (!is_worth_planning(point)) continue;
      point.trainer = trainer_for(point.seq_len, all - point.inference_gpus, Look::kWhole);
      if (point.trainer != nullptr) points.push_back(point);
    }
    if (best_.prompts > 0 && is_open("max_concurrent_prompts_per_server"))
      for (const double factor : {0.75, 1.25}) {
        Point point = best_;
        point.prompts = std::max<std::int64_t>(1, std::llround(static_cast<double>(point.prompts) * factor));
        if (point.prompts != best_.prompts) points.push_back(point);
      }
    if (is_open("max_async_rollout") && base_.staleness.mode == Mode::kAsync)
      for (const double limit : {best_.limit - 1, best_.limit + 1})
        if (limit >= 1 && limit <= 8) {
          points.push_back(best_);
          points.back().limit = limit;
        }
    if (points.empty() || events_ > options_.most_events || interrupted()) return;
    std::vector<Result<Proposal>> answers = propose_all(points);
    const double now = best_proposal_->evaluation.tokens_per_second();
    const Point from = best_;
    double gain = 1;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (!answers[i] || !answers[i]->evaluation.fits()) continue;
      const bool older = points[i].limit > from.limit || points[i].prompts > from.prompts;
      const double faster = answers[i]->evaluation.tokens_per_second() / now / (older ? 1.01 : 1.0);
      if (!(faster > gain)) continue;
      gain = faster;
      best_ = points[i];
      best_proposal_ = *answers[i];
    }
    if (!(gain > 1)) return;
  }
}

Result<Plan> Planner::run() {
  PLIMSOLL_TRY_STATUS(find_base());
  plan_.trainer_splits_model = base_.trainer.is_megatron();
  price_all();
  // The best of the closed form, not many of one split: each split with its two best.
  std::map<std::pair<std::int64_t, std::int64_t>, int> seen;
  std::vector<Point> chosen;
  for (const Point& point : points_)
    if (chosen.size() < options_.simulated && ++seen[{point.inference_gpus, point.tensor}] <= 2)
      chosen.push_back(point);
  std::vector<std::pair<Point, Proposal>> proposals;
  if (!chosen.empty()) {
    std::vector<Result<Proposal>> answers = propose_all(chosen);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (!answers[i]) {
        refuse(to_string(answers[i].error()));
      } else if (!answers[i]->evaluation.fits()) {
        refuse(answers[i]->evaluation.problems.front());
      } else {
        proposals.emplace_back(chosen[i], *std::move(answers[i]));
      }
    }
  }
  const auto faster = [](const auto& a, const auto& b) {
    const Evaluation& first = a.second.evaluation;
    const Evaluation& second = b.second.evaluation;
    if (first.tokens_per_second() != second.tokens_per_second())
      return first.tokens_per_second() > second.tokens_per_second();
    return first.memory.peak() < second.memory.peak();
  };
  std::stable_sort(proposals.begin(), proposals.end(), faster);
  if (!proposals.empty()) {
    best_ = proposals.front().first;
    best_proposal_ = proposals.front().second;
    climb();
    if (best_proposal_->settings != proposals.front().second.settings)
      proposals.insert(proposals.begin(), {best_, *best_proposal_});
    const Evaluation& best = best_proposal_->evaluation;
    const double r = best.time.tokens_per_second_per_gpu;
    const double g =
        best.balance.tokens_per_step / best.balance.generate / static_cast<double>(best_proposal_->run.inference_gpus);
    plan_.ideal_inference_share = r / (r + g);
  }
  for (auto& [point, proposal] : proposals) {
    if (plan_.best.size() >= options_.keep) break;
    plan_.best.push_back(std::move(proposal));
  }
  plan_.refusals.assign(refusals_.begin(), refusals_.end());
  std::stable_sort(plan_.refusals.begin(), plan_.refusals.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return std::move(plan_);
}

Result<Plan> plan(const Run& draft, const PlanOptions& options) { return Planner(draft, options).run(); }

}  // namespace plimsoll::rl
