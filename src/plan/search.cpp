// SPDX-License-Identifier: Apache-2.0
#include "plan/search.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <limits>
#include <map>

#include "base/crew.h"
#include "memory/outside.h"
#include "plan/keeper.h"
#include "timing/interval.h"

namespace plimsoll::plan {

namespace {

constexpr std::string_view kExpandable = "expandable_segments:True";

bool is_set(const std::atomic<bool>* stop) { return stop != nullptr && stop->load(); }

// Reasons that differ in their numbers are one.
std::string without_numbers(std::string_view reason) {
  std::string key;
  for (const char c : reason) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit) key += c;
    if (digit && (key.empty() || key.back() != '#')) key += '#';
  }
  return key;
}

struct Lane {
  Lane(std::size_t most, Keeper::Order order) : keeper(most, order) {}

  Keeper keeper;
  Counts counts;
  std::map<std::string, Refusal> refusals;
  std::vector<Priced> seen;
  std::size_t most_seen = 0;

  void refuse(std::string_view reason) {
    ++counts.refused;
    Refusal& refusal = refusals[without_numbers(reason)];
    if (refusal.count++ == 0) refusal.reason = reason;
  }
};

// Whether a larger micro-batch needs at least as much as a smaller one: it does unless it leaves so few micro-batches
// that fewer are in flight.
bool grows_with_micro_batch(const job::Job& job) {
  const std::int64_t in_flight = job.parallel.virtual_pipeline > 1 ? 2 * job.parallel.pipeline : job.parallel.pipeline;
  return job.micro_batches >= std::max<std::int64_t>(2, in_flight);
}

bool keeps_all(const Variant& activations) {
  return activations.recompute.granularity == job::RecomputeGranularity::kNone && !activations.offload.activations &&
         !activations.offload.fine_grained && !activations.offload.checkpointed_inputs;
}

// All points of one split. Its points of one micro-batch are looked at together: keeping every activation is never
// slower than recomputing or moving them (a property test holds it), so its time stands for all of them.
class SplitPricer {
 public:
  SplitPricer(Evaluator& evaluator, const Space& space, const job::Job& given, Lane& lane)
      : evaluator_(evaluator), space_(space), given_(given), lane_(lane), capacity_(given.cluster.gpu.capacity) {}

  void price(const Candidate& split) {
    too_large_.assign(space_.activations.size(), false);
    std::int32_t micro_batch = -1;
    Verdict all;
    for_each_point(space_, given_, split, [&](const Candidate& c) {
      ++lane_.counts.considered;
      if (c.micro_batch != micro_batch) {
        micro_batch = c.micro_batch;
        all = {};
        all.refusal = evaluator_.refusal(c);
      }
      if (!all.refusal.empty()) return lane_.refuse(all.refusal);
      if (all.too_large) {
        ++lane_.counts.does_not_fit;
      } else if (all.hopeless) {
        ++lane_.counts.slower;
      } else {
        point(c, all);
      }
    });
  }

 private:
  // What the first point of a micro-batch says of the others.
  struct Verdict {
    std::string_view refusal;
    bool too_large = false;
    bool hopeless = false;
  };

  void point(const Candidate& c, Verdict& all) {
    const auto activations = static_cast<std::size_t>(c.activations);
    const auto made = evaluator_.make(c);
    if (!made) return lane_.refuse(made.error().message);
    if (too_large_[activations] && grows_with_micro_batch(**made)) {
      ++lane_.counts.skipped;
      return;
    }
    const auto floor = evaluator_.floor(capacity_);
    if (!floor) return lane_.refuse(floor.error().message);
    if (*floor > capacity_) {
      ++lane_.counts.does_not_fit;
      all.too_large = true;
      return;
    }
    Priced priced{c, evaluator_.seconds(), 0};
    if (lane_.keeper.is_hopeless(priced.seconds, *floor)) {
      ++lane_.counts.slower;
      all.hopeless = keeps_all(space_.activations[activations]);
      return;
    }
    if (const auto allowed = evaluator_.allowed(); !allowed) return lane_.refuse(allowed.error().message);
    priced.peak = evaluator_.peak(capacity_);
    if (priced.peak == kHostTooSmall) {
      ++lane_.counts.no_host;
      return;
    }
    too_large_[activations] = priced.peak > capacity_;
    if (too_large_[activations]) {
      ++lane_.counts.does_not_fit;
      return;
    }
    ++lane_.counts.fits;
    lane_.keeper.add(priced);
    if (lane_.seen.size() < lane_.most_seen) lane_.seen.push_back(priced);
  }

  Evaluator& evaluator_;
  const Space& space_;
  const job::Job& given_;
  Lane& lane_;
  std::int64_t capacity_;
  std::vector<bool> too_large_;  // by activations: a smaller micro-batch was
};

// The leanest point of a space in which nothing fits.
void find_leanest(Evaluator& evaluator, const Space& space, const job::Job& given, const Candidate& split,
                  Priced& leanest) {
  for_each_point(space, given, split, [&](const Candidate& c) {
    if (!evaluator.refusal(c).empty() || !evaluator.make(c)) return;
    const auto floor = evaluator.floor();
    if (!floor || (leanest.peak > 0 && *floor >= leanest.peak) || !evaluator.allowed()) return;
    const std::int64_t enough = leanest.peak > 0 ? leanest.peak : std::numeric_limits<std::int64_t>::max();
    const Priced priced{c, 0, evaluator.peak(enough)};
    if (priced.peak == kHostTooSmall) return;
    if (leanest.peak == 0 || is_leaner(priced, leanest)) leanest = priced;
  });
}

using Work = std::function<void(Evaluator&, const Candidate&, std::size_t lane)>;

// Runs the work of every split, each lane on one thread at a time.
class Crew {
 public:
  Crew(const job::Job& job, const Space& space, const SearchOptions& options)
      : job_(job), space_(space), options_(options) {
    lanes_.resize(options.lanes);
    // Splits that share the states of their ranks stay together.
    std::size_t next = 0;
    Candidate last;
    for_each_split(space, job, [&](const Candidate& c) {
      if (!same_layout(c, last)) ++next;
      last = c;
      lanes_[next % lanes_.size()].push_back(c);
    });
  }

  [[nodiscard]] bool stopped() const { return is_set(options_.stop); }

  void run(const Work& work, const std::function<void()>& report) const {
    std::atomic<std::size_t> next{0};
    share_work(options_.threads, [&](unsigned worker) {
      const bool reports = worker == 0;
      Evaluator evaluator(job_, space_, options_.world, options_.beside);
      auto reported = std::chrono::steady_clock::now();
      for (std::size_t lane = next++; lane < lanes_.size() && !stopped(); lane = next++) {
        for (const Candidate& split : lanes_[lane]) {
          if (stopped()) return;
          work(evaluator, split, lane);
          if (!reports || std::chrono::steady_clock::now() - reported < std::chrono::seconds(1)) continue;
          reported = std::chrono::steady_clock::now();
          report();
        }
      }
    });
  }

 private:
  const job::Job& job_;
  const Space& space_;
  const SearchOptions& options_;
  std::vector<std::vector<Candidate>> lanes_;
};

bool walks(const job::Job& job, const lever::World& world, const Beside* beside, Found& found) {
  auto answer = memory::answer(job, {.all = false, .pp = {}, .verdict_only = true, .alone = false});
  if (!answer) return false;
  world.learned.apply(job, *answer);
  if (!answer->fits) return false;
  memory::RankAnswer& worst = answer->ranks[answer->worst];
  found.beside = beside != nullptr ? beside->walked(job, worst) : 0;
  if (worst.device_used + found.beside > worst.capacity) return false;
  found.warnings = std::move(answer->warnings);
  found.worst = std::move(worst);
  found.job = job;
  return true;
}

// Whether a point cannot fit with the upper end of its interval, seen without walking it: fragmentation comes on top.
bool is_tight_for_sure(Evaluator& evaluator, const Priced& priced) {
  const auto made = evaluator.make(priced.candidate);
  if (!made) return true;
  const std::int64_t learned = evaluator.world().learned.more_outside(**made);
  std::int64_t outside = learned;
  std::int64_t outside_high = learned;
  for (const memory::OutsideItem& item : memory::outside_torch(**made)) {
    outside += item.bytes;
    outside_high += item.high;
  }
  const std::int64_t tensors = priced.peak - outside;
  const memory::Spread spread = memory::spread_of(**made, 0, tensors, tensors);
  return tensors + spread.reserved + outside_high > (*made)->cluster.gpu.capacity;
}

struct Simulated {
  const Priced* priced = nullptr;
  double seconds = 0;
};

// In the order in which rows are shown: by simulated time, or by memory.
std::vector<Simulated> simulate(Evaluator& evaluator, const std::vector<Priced>& closed, Objective objective,
                                const std::atomic<bool>* stop) {
  std::vector<Simulated> simulated;
  for (const Priced& priced : closed) {
    if (is_set(stop)) {  // no time left: the closed form stands
      simulated.push_back({&priced, priced.seconds});
      continue;
    }
    const auto made = evaluator.make(priced.candidate);
    if (!made) continue;
    const auto time = evaluator.simulated(**made);
    simulated.push_back({&priced, time ? time->seconds : priced.seconds});
  }
  if (objective == Objective::kTime)
    std::stable_sort(simulated.begin(), simulated.end(),
                     [](const Simulated& a, const Simulated& b) { return a.seconds < b.seconds; });
  return simulated;
}

// Whether a row says nothing new beside those shown: one of the same sizes is as fast and needs hardly more, or any one
// is as good as equal in both.
bool is_repetition(const std::vector<Found>& shown, const std::vector<Priced>& priced_of_shown, const Priced& priced,
                   double seconds) {
  constexpr std::int64_t kHardly = std::int64_t{512} << 20;
  constexpr double kEqual = 0.005;
  const auto sizes = [](const Candidate& c) {
    return std::tie(c.tensor, c.pipeline, c.context, c.expert, c.expert_tensor);
  };
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const bool leaner = priced_of_shown[i].peak <= priced.peak + kHardly && shown[i].time.seconds <= seconds;
    const bool same = sizes(shown[i].candidate) == sizes(priced.candidate);
    if (leaner && (same || seconds <= shown[i].time.seconds * (1 + kEqual))) return true;
  }
  return false;
}

// Rows of a plan with the prices that they were chosen by.
struct Rows {
  std::vector<Found> found;
  std::vector<Priced> priced;

  [[nodiscard]] bool repeats(const Priced& other, double seconds) const {
    return is_repetition(found, priced, other, seconds);
  }
  void add(Found row, const Priced& price) {
    found.push_back(std::move(row));
    priced.push_back(price);
  }
};

// The best by the closed form and, because all of those may be tight, the front: it holds the fastest of every size.
std::vector<Priced> rows_to_look_at(const Plan& plan) {
  std::vector<Priced> rows = plan.closed;
  for (const Priced& p : plan.pareto)
    if (std::none_of(plan.closed.begin(), plan.closed.end(),
                     [&p](const Priced& other) { return other.candidate.key() == p.candidate.key(); }))
      rows.push_back(p);
  return rows;
}

// Walks the fastest through the allocator until enough surely fit; what is faster and only just fits is kept apart.
void choose_rows(Evaluator& evaluator, const SearchOptions& options, Plan& plan) {
  constexpr std::size_t kMostTight = 3;
  const std::vector<Priced> rows = rows_to_look_at(plan);
  Rows sure;
  Rows tight;
  for (const Simulated& simulated : simulate(evaluator, rows, options.objective, options.stop)) {
    const Priced& priced = *simulated.priced;
    if (sure.found.size() == options.keep || (is_set(options.stop) && !sure.found.empty())) break;
    if (sure.repeats(priced, simulated.seconds)) continue;
    const bool wants_tight =
        tight.found.size() < std::max(kMostTight, options.keep) && !tight.repeats(priced, simulated.seconds);
    // What lies beside the step has no spread.
    if (!wants_tight && options.beside == nullptr && is_tight_for_sure(evaluator, priced)) continue;
    auto found = walked(evaluator, plan.space, options.beside, priced.candidate);
    if (!found) {
      ++plan.counts.walked_out;
      continue;
    }
    const bool is_sure = found->surely_fits();
    if (!is_sure && !wants_tight) continue;
    if (auto time = evaluator.simulated(found->job); time) found->time = *std::move(time);
    for (std::string& warning : timing::unmodelled(found->job)) found->warnings.push_back("time: " + warning);
    (is_sure ? sure : tight).add(*std::move(found), priced);
  }
  if (sure.found.empty()) std::swap(sure, tight);
  plan.best = std::move(sure.found);
  const auto is_slower = [&plan](const Found& f) { return f.time.seconds >= plan.best.front().time.seconds; };
  if (!plan.best.empty()) std::erase_if(tight.found, is_slower);
  if (tight.found.size() > kMostTight) tight.found.resize(kMostTight);
  plan.tight = std::move(tight.found);
}

// The front as it would be launched: points that nearly fill the GPU are walked, because fragmentation may take them
// off, and all are simulated.
void confirm_front(Evaluator& evaluator, const Beside* beside, Plan& plan, std::int64_t capacity) {
  constexpr double kNearlyFull = 0.95;
  Keeper confirmed(0, Keeper::Order::kTime);
  for (Priced priced : plan.pareto) {
    const auto is_found = [&priced](const Found& f) { return f.candidate.key() == priced.candidate.key(); };
    const bool is_tight = static_cast<double>(priced.peak) >= kNearlyFull * static_cast<double>(capacity);
    if (is_tight && std::none_of(plan.best.begin(), plan.best.end(), is_found) &&
        !walked(evaluator, plan.space, beside, priced.candidate))
      continue;
    const auto made = evaluator.make(priced.candidate);
    if (!made) continue;
    if (const auto time = evaluator.simulated(**made)) priced.seconds = time->seconds;
    confirmed.add(priced);
  }
  plan.pareto = confirmed.front();
}

Plan search_keeping(const job::Job& job, const Space& space, const SearchOptions& options, std::size_t most) {
  Plan plan;
  plan.space = space;
  plan.objective = options.objective;
  const Crew crew(job, space, options);
  const Keeper::Order order = options.objective == Objective::kTime ? Keeper::Order::kTime : Keeper::Order::kMemory;
  std::vector<Lane> lanes(options.lanes, Lane(most, order));
  for (Lane& lane : lanes) lane.most_seen = options.remember / options.lanes;
  std::atomic<std::size_t> considered{0};
  std::atomic<std::size_t> fits{0};
  const auto work = [&](Evaluator& evaluator, const Candidate& split, std::size_t lane) {
    const Counts before = lanes[lane].counts;
    SplitPricer(evaluator, space, job, lanes[lane]).price(split);
    considered += lanes[lane].counts.considered - before.considered;
    fits += lanes[lane].counts.fits - before.fits;
  };
  const auto report = [&] {
    Counts counts;
    counts.considered = considered;
    counts.fits = fits;
    if (options.progress) options.progress(counts);
  };
  crew.run(work, report);
  plan.interrupted = crew.stopped();
  Keeper all(most, order);
  std::map<std::string, Refusal> refusals;
  for (const Lane& lane : lanes) {
    plan.counts.add(lane.counts);
    all.merge(lane.keeper);
    plan.seen.insert(plan.seen.end(), lane.seen.begin(), lane.seen.end());
    for (const auto& [key, refusal] : lane.refusals) {
      Refusal& sum = refusals[key];
      if (sum.count == 0) sum.reason = refusal.reason;
      sum.count += refusal.count;
    }
  }
  for (auto& [key, refusal] : refusals) plan.refusals.push_back(std::move(refusal));
  std::stable_sort(plan.refusals.begin(), plan.refusals.end(),
                   [](const Refusal& a, const Refusal& b) { return a.count > b.count; });
  plan.closed = all.best();
  plan.pareto = all.front();
  if (plan.closed.empty() && plan.counts.fits == 0 && !plan.interrupted) {
    std::vector<Priced> leanest(options.lanes);
    crew.run([&](Evaluator& evaluator, const Candidate& split,
                 std::size_t lane) { find_leanest(evaluator, space, job, split, leanest[lane]); },
             [] {});
    for (const Priced& priced : leanest)
      if (priced.peak > 0 && (plan.least_peak == 0 || priced.peak < plan.least_peak)) {
        plan.least_peak = priced.peak;
        plan.nearest = priced.candidate;
      }
  }
  return plan;
}

}  // namespace

std::optional<Found> walked(Evaluator& evaluator, const Space& space, const Beside* beside,
                            const Candidate& candidate) {
  const auto made = evaluator.make(candidate);
  if (!made) return std::nullopt;
  Found found;
  found.candidate = candidate;
  found.settings = settings_of(space, candidate, **made);
  const bool fits = walks(**made, evaluator.world(), beside, found);
  if (fits && found.surely_fits()) return found;
  job::Job with = **made;
  with.environment["PYTORCH_CUDA_ALLOC_CONF"] = kExpandable;
  Found expandable = found;
  if (!walks(with, evaluator.world(), beside, expandable)) return fits ? std::optional(std::move(found)) : std::nullopt;
  if (fits && !expandable.surely_fits()) return found;
  expandable.expandable = true;
  expandable.settings.emplace_back("environment.PYTORCH_CUDA_ALLOC_CONF", std::string(kExpandable));
  return expandable;
}

void Counts::add(const Counts& other) {
  considered += other.considered;
  refused += other.refused;
  does_not_fit += other.does_not_fit;
  skipped += other.skipped;
  slower += other.slower;
  no_host += other.no_host;
  fits += other.fits;
  walked_out += other.walked_out;
}

bool anything_fits(const job::Job& job, const Space& space, const SearchOptions& options) {
  // Points that fragmentation takes off are rare; where they are not, the search decides.
  constexpr int kMostFailedWalks = 64;
  const Crew crew(job, space, options);
  const std::int64_t capacity = job.cluster.gpu.capacity;
  std::atomic<bool> found{false};
  std::atomic<int> failed_walks{0};
  const auto is_decided = [&] { return found || failed_walks > kMostFailedWalks || is_set(options.stop); };
  const auto work = [&](Evaluator& evaluator, const Candidate& split, std::size_t) {
    std::vector<bool> too_large(space.activations.size(), false);  // of a smaller micro-batch
    std::int32_t hopeless = -1;                                    // a micro-batch whose state alone is too large
    for_each_point(space, job, split, [&](const Candidate& c) {
      if (is_decided() || c.micro_batch == hopeless || !evaluator.refusal(c).empty()) return;
      const auto activations = static_cast<std::size_t>(c.activations);
      const auto made = evaluator.make(c);
      if (!made || (too_large[activations] && grows_with_micro_batch(**made))) return;
      const auto floor = evaluator.floor(capacity);
      if (!floor) return;
      if (*floor > capacity) {
        hopeless = c.micro_batch;
        return;
      }
      if (!evaluator.allowed()) return;
      const std::int64_t peak = evaluator.peak(capacity);
      if (peak != kHostTooSmall) too_large[activations] = peak > capacity;
      if (peak > capacity) return;
      if (walked(evaluator, space, options.beside, c)) {
        found = true;
      } else {
        ++failed_walks;
      }
    });
  };
  crew.run(work, [] {});
  if (found || failed_walks <= kMostFailedWalks || is_set(options.stop)) return found;
  return !search(job, space, options).best.empty();
}

Plan search(const job::Job& job, const Space& space, const SearchOptions& options) {
  for (std::size_t most = std::max(options.simulated, 4 * options.keep);; most *= 8) {
    Plan plan = search_keeping(job, space, options, most);
    if (options.keep == 0) return plan;
    Evaluator evaluator(job, space, options.world, options.beside);
    choose_rows(evaluator, options, plan);
    if (options.objective == Objective::kHeadroom)
      std::stable_sort(plan.best.begin(), plan.best.end(),
                       [](const Found& a, const Found& b) { return a.worst.headroom > b.worst.headroom; });
    // Where fragmentation takes all that were kept off, what was passed over for them may still fit.
    plan.interrupted = plan.interrupted || is_set(options.stop);
    const bool has_passed_over = plan.counts.slower > 0 || plan.counts.fits > plan.closed.size();
    if (plan.best.empty() && has_passed_over && !plan.interrupted) continue;
    if (!plan.interrupted) confirm_front(evaluator, options.beside, plan, job.cluster.gpu.capacity);
    return plan;
  }
}

}  // namespace plimsoll::plan
