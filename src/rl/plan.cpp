// SPDX-License-Identifier: Apache-2.0
#include "rl/plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
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

constexpr std::size_t kWholeLooks = 3;    // numbers of training GPUs whose trainer is planned in full
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
    std::map<std::int64_t, std::optional<TrainerChoice>> coarse;  // by GPUs
    std::map<std::int64_t, std::optional<TrainerChoice>> whole;
  };
  // Servers of one size on some of the GPUs, and the bins of the trainer on the rest.
  struct Site {
    std::int64_t tensor = 1;
    std::int64_t inference_gpus = 0;
    std::int64_t trainer_gpus = 0;
    std::int64_t seq_len = 0;
    std::shared_ptr<const Loop> loop;  // without servers and trainer
    std::shared_ptr<const std::vector<std::int64_t>> prompts;
  };

  [[nodiscard]] bool is_open(std::string_view key) const { return !draft_.has(key); }
  Status find_base();
  [[nodiscard]] std::vector<std::int64_t> tensors() const;
  [[nodiscard]] std::vector<std::int64_t> inference_counts(std::int64_t unit) const;
  [[nodiscard]] std::vector<std::int64_t> seq_lens() const;
  [[nodiscard]] std::vector<std::int64_t> lanes(const Loop& loop) const;
  [[nodiscard]] std::vector<double> limits(const Loop& loop) const;
  const TrainerChoice* trainer_for(std::int64_t seq_len, std::int64_t gpus, Look look);
  Trainers& trainers_of(std::int64_t seq_len);
  std::vector<Site> sites();
  double rate(const Site& site, const TrainerTime& time, const SyncTime& sync, const TrainerChoice* trainer,
              std::vector<Point>* points) const;
  [[nodiscard]] double hoped(const Site& site);
  double add_points(const Site& site, const TrainerChoice& trainer);
  void sort_points();
  void price_all();
  [[nodiscard]] Settings settings_of(const Point& point) const;
  [[nodiscard]] Result<Proposal> propose(const Point& point) const;
  std::vector<Result<Proposal>> propose_all(const std::vector<Point>& points);
  void refuse(const std::string& why);
  [[nodiscard]] bool is_worth_planning(const Point& point);
  void climb();

  const Run& draft_;
  const PlanOptions& options_;
  Run base_;  // complete, for some split
  Plan plan_;
  std::map<std::int64_t, Trainers> trainers_;  // by seq_len
  std::map<std::int64_t, inference::ServerMemory> servers_;
  std::vector<Point> points_;
  std::map<std::string, std::size_t> refusals_;
  double least_gpu_seconds_ = 0;  // of a batch, with the best trainer so far; 0: none yet
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

const TrainerChoice* Planner::trainer_for(std::int64_t seq_len, std::int64_t gpus, Look look) {
  Trainers& trainers = trainers_of(seq_len);
  auto& by_gpus = look == Look::kCoarse ? trainers.coarse : trainers.whole;
  const auto known = by_gpus.find(gpus);
  if (known != by_gpus.end()) return known->second ? &*known->second : nullptr;
  // What fits on some GPUs fits on a multiple of them, with more ranks that share the states.
  for (const auto& [more, choice] : by_gpus)
    if (!choice && more % gpus == 0) return nullptr;
  Run run = base_;
  run.packing.seq_len = seq_len;
  run.trainer.batch.seq_length = seq_len;
  plan::Counts counts;
  if (options_.progress) options_.progress(fmt::format("planning a trainer of {} GPUs", gpus));
  auto choice = choose_trainer(run, gpus, trainers.packed, options_.world, look, counts);
  plan_.counts.considered += counts.considered;
  plan_.counts.refused += counts.refused;
  plan_.counts.trainer_too_large += counts.does_not_fit + counts.walked_out + counts.no_host;
  if (choice) {
    const double spent = choice->time.seconds * static_cast<double>(gpus);
    least_gpu_seconds_ = least_gpu_seconds_ > 0 ? std::min(least_gpu_seconds_, spent) : spent;
  }
  const std::optional<TrainerChoice>& kept = by_gpus.emplace(gpus, std::move(choice)).first->second;
  return kept ? &*kept : nullptr;
}

Planner::Trainers& Planner::trainers_of(std::int64_t seq_len) {
  const auto found = trainers_.find(seq_len);
  if (found != trainers_.end()) return found->second;
  Run run = base_;
  run.packing.seq_len = seq_len;
  Trainers fresh;
  fresh.packed = typical_packing(run, bin_multiple(run, run.trainer), 1);
  return trainers_.emplace(seq_len, std::move(fresh)).first->second;
}

// Every size of a server that starts, with every number of GPUs for servers.
std::vector<Planner::Site> Planner::sites() {
  std::vector<Site> sites;
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
    auto loop = std::make_shared<const Loop>(make_loop(run, *server, {}, {}));
    auto prompts = std::make_shared<const std::vector<std::int64_t>>(lanes(*loop));
    for (const std::int64_t count : inference_counts(std::lcm(unit, pool_unit(run)))) {
      if (count % unit != 0) continue;
      run.inference_gpus = count;
      run.trainer_gpus = base_.is_colocated() ? base_.cluster.gpus : base_.cluster.gpus - count;
      if (const auto launches = check_pools(run); !launches) {
        refuse(launches.error().message);
        continue;
      }
      for (const std::int64_t seq_len : seq_lens())
        sites.push_back({tensor, count, run.trainer_gpus, seq_len, loop, prompts});
    }
  }
  return sites;
}

// Points of a site with this trainer; the highest rate among them.
double Planner::rate(const Site& site, const TrainerTime& time, const SyncTime& sync, const TrainerChoice* trainer,
                     std::vector<Point>* points) const {
  Loop loop = *site.loop;
  loop.servers = site.inference_gpus / (site.tensor * base_.server.pipeline);
  set_trainer(loop, time, sync);
  double highest = 0;
  for (const std::int64_t prompts : *site.prompts) {
    if (prompts > 0) loop.lanes = prompts * loop.group_size;
    for (const double limit : limits(loop)) {
      loop.limit = limit;
      const double tokens = balance(loop).tokens_per_second;
      highest = std::max(highest, tokens);
      if (points != nullptr)
        points->push_back({site.inference_gpus, site.tensor, prompts, site.seq_len, limit, trainer, tokens});
    }
  }
  return highest;
}

// The rate of a site with a trainer that is as good as one may hope for: no number of GPUs is taken to train more than
// kHope times as fast per GPU as the best that was tried.
double Planner::hoped(const Site& site) {
  constexpr double kHope = 1.25;
  TrainerTime time;
  time.packed = trainers_of(site.seq_len).packed;
  time.seconds = least_gpu_seconds_ / kHope / static_cast<double>(site.trainer_gpus);
  return rate(site, time, {}, nullptr, nullptr);
}

// A trainer is planned where the hope for its site is above what is known: splits that cannot be the best cost nothing.
void Planner::price_all() {
  struct Waiting {
    const Site* site;
    double hope;
  };
  const std::vector<Site> all = sites();
  std::vector<Waiting> waiting;
  for (const Site& site : all) waiting.push_back({&site, hoped(site)});
  double best = 0;
  double hoped_with = least_gpu_seconds_;
  while (!waiting.empty() && !interrupted()) {
    if (hoped_with != least_gpu_seconds_) {
      hoped_with = least_gpu_seconds_;
      for (Waiting& one : waiting) one.hope = hoped(*one.site);
    }
    auto next = std::max_element(waiting.begin(), waiting.end(),
                                 [](const Waiting& a, const Waiting& b) { return a.hope < b.hope; });
    // Without any trainer there is nothing to hope from: half of the GPUs is as good a start as any.
    if (hoped_with == 0) next = waiting.begin() + static_cast<std::ptrdiff_t>(waiting.size() / 2);
    if (hoped_with > 0 && next->hope < best) break;
    const Site& site = *next->site;
    waiting.erase(next);
    ++plan_.counts.considered;
    const TrainerChoice* trainer = trainer_for(site.seq_len, site.trainer_gpus, Look::kCoarse);
    if (trainer != nullptr) best = std::max(best, add_points(site, *trainer));
  }
  sort_points();
  // The splits that came out best get the trainers that `plan` would give them.
  std::vector<const TrainerChoice*> looked_at;
  for (const Point& point : points_) {
    const auto is_same = [&point](const TrainerChoice* other) {
      return other->job.cluster.gpus == point.trainer->job.cluster.gpus;
    };
    if (looked_at.size() < kWholeLooks && std::none_of(looked_at.begin(), looked_at.end(), is_same))
      looked_at.push_back(point.trainer);
  }
  points_.clear();
  for (const Site& site : all) {
    const auto& known = trainers_of(site.seq_len).coarse;
    const auto found = known.find(site.trainer_gpus);
    if (found == known.end() || !found->second || interrupted() ||
        std::find(looked_at.begin(), looked_at.end(), &*found->second) == looked_at.end())
      continue;
    const TrainerChoice* trainer = trainer_for(site.seq_len, site.trainer_gpus, Look::kWhole);
    if (trainer != nullptr) add_points(site, *trainer);
  }
  sort_points();
}

// The highest rate of them.
double Planner::add_points(const Site& site, const TrainerChoice& trainer) {
  Run run = base_;
  run.server.tensor = site.tensor;
  run.inference_gpus = site.inference_gpus;
  run.trainer_gpus = site.trainer_gpus;
  run.sync.cpu_staging = run.sync.cpu_staging || trainer.stages;
  return rate(site, trainer.time, sync_time(run, trainer.job, 0, options_.world), &trainer, &points_);
}

void Planner::sort_points() {
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
  if (hoped(site) < best_.tokens_per_second) return false;
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

}  // namespace

Result<Plan> plan(const Run& draft, const PlanOptions& options) { return Planner(draft, options).run(); }

}  // namespace plimsoll::rl
