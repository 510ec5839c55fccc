// SPDX-License-Identifier: Apache-2.0
#include "rl/plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/crew.h"
#include "base/interrupt.h"
#include "rl/frameworks/config.h"
#include "rl/keys.h"
#include "rl/trainer_choice.h"

namespace plimsoll::rl {

namespace {

constexpr std::int64_t kMostSplits = 48;  // numbers of serving GPUs that the closed form is asked for

struct Point {
  std::int64_t inference_gpus = 0;
  std::int64_t tensor = 1;
  std::int64_t prompts = 0;  // in flight per server
  std::int64_t seq_len = 0;
  double limit = 0;
  const TrainerChoice* trainer = nullptr;
  double tokens_per_second = 0;
};

class Planner {
 public:
  Planner(const Run& draft, const PlanOptions& options) : draft_(draft), options_(options) {}

  Result<Plan> run();

 private:
  struct Trainers {
    Packed packed;
    std::map<std::int64_t, std::optional<TrainerChoice>> by_gpus;
  };

  [[nodiscard]] bool is_open(std::string_view key) const { return !draft_.has(key); }
  Status find_base();
  [[nodiscard]] std::vector<std::int64_t> tensors() const;
  [[nodiscard]] std::vector<std::int64_t> inference_counts(std::int64_t unit) const;
  [[nodiscard]] std::vector<std::int64_t> seq_lens() const;
  [[nodiscard]] std::vector<std::int64_t> lanes(const Loop& loop) const;
  [[nodiscard]] std::vector<double> limits(const Loop& loop) const;
  const TrainerChoice* trainer_for(std::int64_t seq_len, std::int64_t gpus);
  void price_all();
  [[nodiscard]] Settings settings_of(const Point& point) const;
  [[nodiscard]] Result<Proposal> propose(const Point& point) const;
  std::vector<Result<Proposal>> propose_all(const std::vector<Point>& points);
  void refuse(const std::string& why);
  void climb();

  const Run& draft_;
  const PlanOptions& options_;
  Run base_;  // complete, for some split
  Plan plan_;
  std::map<std::int64_t, Trainers> trainers_;  // by seq_len
  std::map<std::int64_t, inference::ServerMemory> servers_;
  std::vector<Point> points_;
  std::map<std::string, std::size_t> refusals_;
  Point best_;
  std::optional<Proposal> best_proposal_;
  std::int64_t events_ = 0;  // simulated so far
};

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

// Powers of two up to an NVLink domain; what is wider is tried only where nothing narrower starts (price_all).
constexpr std::int64_t kWidestServer = 32;
std::vector<std::int64_t> Planner::tensors() const {
  if (!is_open("inference_tensor_parallel_size")) return {draft_.server.tensor};
  std::vector<std::int64_t> sizes;
  for (std::int64_t tensor = 1; tensor <= std::min(base_.cluster.gpus, kWidestServer); tensor *= 2)
    sizes.push_back(tensor);
  return sizes;
}

std::vector<std::int64_t> Planner::inference_counts(std::int64_t unit) const {
  const std::int64_t all = base_.cluster.gpus;
  if (base_.is_colocated()) return {all};
  if (!is_open("inference_num_workers")) return {base_.inference_gpus};
  if (!is_open("trainer_num_workers")) return {all - base_.trainer_gpus};
  std::vector<std::int64_t> counts;
  const std::int64_t stride = std::max<std::int64_t>(1, ceil_div(all / unit, kMostSplits)) * unit;
  for (std::int64_t count = stride; count < all; count += stride) counts.push_back(count);
  if (counts.empty() && unit < all) counts.push_back(unit);
  return counts;
}

std::vector<std::int64_t> Planner::seq_lens() const {
  if (!is_open("seq_len")) return {base_.packing.seq_len};
  const std::int64_t pad = std::max<std::int64_t>(64, base_.packing.pad_to_multiple_of);
  const std::int64_t longest = round_up(
      std::min(base_.prompt.maximum + base_.completion.maximum, base_.server.max_model_len.value_or(1 << 30)), pad);
  return {longest, 2 * longest, 4 * longest};
}

// In groups of prompts: what fills the cache to seven tenths, what fills it, and powers of two below (facts
// rl-and-inference.md 7).
std::vector<std::int64_t> Planner::lanes(const Loop& loop) const {
  if (!is_open("max_concurrent_prompts_per_server")) return {base_.lanes.prompts_per_server};
  if (loop.dispatch != Dispatch::kLevel && base_.lanes.prompts_per_server == 0) return {0};
  const double room = std::min(kv_concurrency(loop), static_cast<double>(loop.max_running));
  const auto in_groups = [&](double requests) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(requests / static_cast<double>(loop.group_size)));
  };
  std::vector<std::int64_t> values = {in_groups(0.7 * room), in_groups(0.85 * room), in_groups(room)};
  for (std::int64_t prompts = 1; prompts < in_groups(room); prompts *= 2) values.push_back(prompts);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

// The closed form knows one reason to run further ahead: groups that would be discarded as too late.
std::vector<double> Planner::limits(const Loop& loop) const {
  const double given = base_.staleness.limit;
  if (!is_open("max_async_rollout") || !loop.discards_late || given < 1) return {given};
  return {given, given + 1, given + 2, given + 4};
}

const TrainerChoice* Planner::trainer_for(std::int64_t seq_len, std::int64_t gpus) {
  auto found = trainers_.find(seq_len);
  Run run = base_;
  run.packing.seq_len = seq_len;
  if (found == trainers_.end()) {
    Trainers fresh;
    fresh.packed = typical_packing(run, bin_multiple(run, run.trainer), 1);
    found = trainers_.emplace(seq_len, std::move(fresh)).first;
  }
  Trainers& trainers = found->second;
  const auto known = trainers.by_gpus.find(gpus);
  if (known == trainers.by_gpus.end()) {
    run.trainer.batch.seq_length = seq_len;
    ChoiceCounts counts;
    auto choice = choose_trainer(run, gpus, trainers.packed, counts);
    plan_.counts.considered += counts.considered;
    plan_.counts.refused += counts.refused;
    plan_.counts.trainer_too_large += counts.too_large;
    trainers.by_gpus.emplace(gpus, std::move(choice));
  }
  const std::optional<TrainerChoice>& choice = trainers.by_gpus.at(gpus);
  return choice ? &*choice : nullptr;
}

void Planner::price_all() {
  const std::int64_t domain = std::max<std::int64_t>(8, base_.cluster.nvlink_domain());
  for (const std::int64_t tensor : tensors()) {
    if (tensor > domain && !servers_.empty()) break;
    Run run = base_;
    run.server.tensor = tensor;
    const std::int64_t unit = run.gpus_per_server();
    auto server = inference::account(placed_server(run, 0));
    if (!server) {
      refuse(server.error().message);
      continue;
    }
    if (!inference::speed_is_known(server->server)) continue;
    if (!server->start_up_error.empty() || server->kv_tokens < 1) {
      ++plan_.counts.server_too_large;
      ++refusals_[fmt::format("a server of {} GPU{} does not start: {}", unit, unit == 1 ? "" : "s",
                              server->start_up_error)];
      continue;
    }
    servers_.emplace(tensor, *server);
    run.inference_gpus = unit;
    Loop loop = make_loop(run, *server, {}, {});
    const std::vector<std::int64_t> prompt_counts = lanes(loop);
    for (const std::int64_t count : inference_counts(std::lcm(unit, pool_unit(run)))) {
      if (count % unit != 0) continue;
      const std::int64_t training = base_.is_colocated() ? base_.cluster.gpus : base_.cluster.gpus - count;
      run.inference_gpus = count;
      run.trainer_gpus = training;
      if (const auto launches = check_pools(run); !launches) {
        refuse(launches.error().message);
        continue;
      }
      loop.servers = run.servers();
      if (options_.progress) options_.progress(fmt::format("priced {} settings", plan_.counts.considered));
      for (const std::int64_t seq_len : seq_lens()) {
        const TrainerChoice* trainer = trainer_for(seq_len, training);
        if (trainer == nullptr) continue;
        set_trainer(loop, trainer->time, sync_time(run, trainer->job, 0));
        for (const std::int64_t prompts : prompt_counts) {
          ++plan_.counts.considered;
          if (prompts > 0) loop.lanes = prompts * loop.group_size;
          for (const double limit : limits(loop)) {
            loop.limit = limit;
            const double rate = balance(loop).tokens_per_second;
            points_.push_back({count, tensor, prompts, seq_len, limit, trainer, rate});
          }
        }
      }
    }
  }
  // Of equally fast ones the one with fewer requests in flight comes first: its samples are younger.
  std::stable_sort(points_.begin(), points_.end(), [](const Point& a, const Point& b) {
    const double larger = std::max(a.tokens_per_second, b.tokens_per_second);
    if (std::abs(a.tokens_per_second - b.tokens_per_second) > 1e-6 * larger)
      return a.tokens_per_second > b.tokens_per_second;
    if (a.limit != b.limit) return a.limit < b.limit;
    if (a.seq_len != b.seq_len) return a.seq_len < b.seq_len;
    return a.prompts * a.tensor < b.prompts * b.tensor;
  });
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
      point.trainer = trainer_for(point.seq_len, all - point.inference_gpus);
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

}  // namespace

Result<Plan> plan(const Run& draft, const PlanOptions& options) { return Planner(draft, options).run(); }

}  // namespace plimsoll::rl
