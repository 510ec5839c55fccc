// SPDX-License-Identifier: Apache-2.0
// What may be chosen, and its price by the closed form.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/interrupt.h"
#include "rl/frameworks/config.h"
#include "rl/planner.h"

namespace plimsoll::rl {

namespace {

constexpr std::size_t kWholeLooks = 3;    // numbers of training GPUs whose trainer is planned in full
constexpr std::int64_t kMostSplits = 48;  // numbers of serving GPUs that the closed form is asked for

}  // namespace

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
  if (look == Look::kWhole) whole_points_ += counts.considered;
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
  if (looked_at.empty()) look_at_largest(all);
  for (const TrainerChoice* coarse : looked_at) {
    if (interrupted() || (!points_.empty() && whole_points_ > kMostWholePoints)) break;
    for (const Site& site : all) {
      const auto& known = trainers_of(site.seq_len).coarse;
      const auto found = known.find(site.trainer_gpus);
      if (found == known.end() || !found->second || &*found->second != coarse) continue;
      const TrainerChoice* trainer = trainer_for(site.seq_len, site.trainer_gpus, Look::kWhole);
      if (trainer != nullptr) add_points(site, *trainer);
    }
  }
  sort_points();
}

// A coarse look leaves out what is slowest, such as states on the host: where nothing else fits, the most GPUs get it.
void Planner::look_at_largest(const std::vector<Site>& all) {
  std::set<std::int64_t, std::greater<>> counts;
  for (const Site& site : all) counts.insert(site.trainer_gpus);
  std::size_t looks = 0;
  for (const std::int64_t gpus : counts) {
    if (looks++ == kWholeLooks || interrupted() || !points_.empty()) return;
    for (const Site& site : all) {
      if (site.trainer_gpus != gpus) continue;
      const TrainerChoice* trainer = trainer_for(site.seq_len, gpus, Look::kWhole);
      if (trainer != nullptr) add_points(site, *trainer);
    }
  }
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

}  // namespace plimsoll::rl
