// SPDX-License-Identifier: Apache-2.0
#include "plan/search.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "memory/outside.h"
#include "rules/rules.h"
#include "step/program.h"

namespace plimsoll::plan {

namespace {

constexpr std::string_view kExpandable = "expandable_segments:True";

// The job that candidates are made from: what a plan chooses counts as given.
job::Job base_of(const job::Job& job) {
  job::Job base = job;
  for (const std::string& key : chosen_keys()) base.given.insert(key);
  // Frameworks refuse these beside selective recomputation.
  for (const char* key : {"recompute_method", "recompute_num_layers"}) base.given.erase(key);
  return base;
}

job::Job with_full_recompute(job::Job base) {
  for (const char* key : {"recompute_method", "recompute_num_layers"}) base.given.insert(key);
  return base;
}

class Evaluator {
 public:
  Evaluator(const job::Job& job, const Space& space)
      : base_(base_of(job)),
        full_base_(with_full_recompute(base_)),
        space_(space),
        checker_(rules::catalogue(), base_),
        full_checker_(rules::catalogue(), full_base_),
        machine_(job.cluster, timing::built_in()),
        capacity_(job.cluster.gpu.capacity) {}

  // The completed job of a candidate, or why the framework refuses it.
  Result<job::Job> make(const Candidate& candidate) const {
    const bool full =
        space_.recompute[static_cast<std::size_t>(candidate.recompute)].granularity == job::RecomputeGranularity::kFull;
    const rules::Checker& checker = full ? full_checker_ : checker_;
    job::Job job = full ? full_base_ : base_;
    apply(space_, candidate, job);
    PLIMSOLL_TRY_STATUS(job::complete(job));
    if (checker.violates_any_error(job)) {
      const auto violated = checker.check(job);
      return bad_input(violated.empty() ? "a rule of the framework"
                                        : "rule " + rules::catalogue().rules()[violated.front()].id);
    }
    return job;
  }

  Result<Priced> price(const Candidate& candidate) const {
    PLIMSOLL_TRY(job, make(candidate));
    PLIMSOLL_TRY(layout, job::pipeline_layout(job));
    Priced priced{candidate, 0, 0};
    std::int64_t outside = 0;
    for (const memory::OutsideItem& item : memory::outside_torch(job)) outside += item.bytes;
    for (std::int64_t rank = 0; rank < job.parallel.pipeline; ++rank) {
      step::Tape tape;
      const step::RankResult result = step::run_rank(job, layout, rank, tape, true);
      priced.peak = std::max(priced.peak, tape.peak() + outside + result.outside_bytes);
      if (priced.peak > capacity_) return priced;  // no need to know by how much
    }
    timing::Options options;
    options.detail = timing::Detail::kFast;
    priced.seconds = timing::predict(job, layout, machine_, options).seconds;
    return priced;
  }

  [[nodiscard]] bool fits(const Priced& priced) const { return priced.peak <= capacity_; }
  [[nodiscard]] const timing::Machine& machine() const { return machine_; }

 private:
  job::Job base_;
  job::Job full_base_;
  const Space& space_;
  rules::Checker checker_;
  rules::Checker full_checker_;
  timing::Machine machine_;
  std::int64_t capacity_;
};

struct Part {
  Counts counts;
  std::vector<Priced> priced;
  std::map<std::string, std::size_t> refusals;
  std::int64_t least_peak = 0;
  Candidate nearest;
};

// All micro-batches, stages and recomputations of one split.
void price_split(const Evaluator& evaluator, const Space& space, Candidate c, Part& part) {
  for (std::size_t stage = 0; stage < space.stages.size(); ++stage) {
    for (std::size_t r = 0; r < space.recompute.size(); ++r) {
      bool too_large = false;
      for (const std::int64_t micro_batch : space.micro_batch) {
        c.stage = static_cast<std::int16_t>(stage);
        c.recompute = static_cast<std::int16_t>(r);
        c.micro_batch = static_cast<std::int32_t>(micro_batch);
        ++part.counts.considered;
        if (too_large) {
          ++part.counts.skipped;
          continue;
        }
        const auto priced = evaluator.price(c);
        if (!priced) {
          ++part.counts.refused;
          ++part.refusals[priced.error().message];
        } else if (!evaluator.fits(*priced)) {
          ++part.counts.does_not_fit;
          too_large = true;
          if (part.least_peak == 0 || priced->peak < part.least_peak) {
            part.least_peak = priced->peak;
            part.nearest = c;
          }
        } else {
          ++part.counts.fits;
          part.priced.push_back(*priced);
        }
      }
    }
  }
}

void join(Counts& into, const Counts& from) {
  into.considered += from.considered;
  into.refused += from.refused;
  into.does_not_fit += from.does_not_fit;
  into.skipped += from.skipped;
  into.fits += from.fits;
}

bool walks(const job::Job& job, Found& found) {
  auto answer = memory::answer(job, {});
  if (!answer || !answer->fits) return false;
  found.worst = std::move(answer->ranks[answer->worst]);
  found.job = job;
  return true;
}

std::vector<Priced> pareto_of(const std::vector<Priced>& by_time) {
  std::vector<Priced> front;
  for (const Priced& priced : by_time)
    if (front.empty() || priced.peak < front.back().peak) front.push_back(priced);
  return front;
}

}  // namespace

Result<Priced> price(const job::Job& job, const Space& space, const Candidate& candidate) {
  return Evaluator(job, space).price(candidate);
}

Plan search(const job::Job& job, const Space& space, const SearchOptions& options) {
  Plan plan;
  plan.space = space;
  std::vector<Candidate> splits;
  for_each_split(space, job, [&splits](const Candidate& c) { splits.push_back(c); });
  const unsigned threads = options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  std::vector<Part> parts(threads);
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> considered{0};
  const auto stopped = [&] { return options.stop != nullptr && options.stop->load(); };
  const auto work = [&](Part& part, bool reports) {
    const Evaluator evaluator(job, space);
    auto reported = std::chrono::steady_clock::now();
    for (std::size_t i = next++; i < splits.size() && !stopped(); i = next++) {
      const std::size_t before = part.counts.considered;
      price_split(evaluator, space, splits[i], part);
      considered += part.counts.considered - before;
      if (!reports || !options.progress || std::chrono::steady_clock::now() - reported < std::chrono::seconds(1))
        continue;
      reported = std::chrono::steady_clock::now();
      Counts counts = part.counts;
      counts.considered = considered;
      options.progress(counts);
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (unsigned t = 1; t < threads; ++t) helpers.emplace_back([&work, &parts, t] { work(parts[t], false); });
    work(parts[0], true);
  }
  plan.interrupted = stopped();
  std::vector<Priced> priced;
  std::map<std::string, std::size_t> refusals;
  for (Part& part : parts) {
    join(plan.counts, part.counts);
    priced.insert(priced.end(), part.priced.begin(), part.priced.end());
    for (const auto& [reason, count] : part.refusals) refusals[reason] += count;
    if (part.least_peak > 0 && (plan.least_peak == 0 || part.least_peak < plan.least_peak)) {
      plan.least_peak = part.least_peak;
      plan.nearest = part.nearest;
    }
  }
  plan.refusals.assign(refusals.begin(), refusals.end());
  std::stable_sort(plan.refusals.begin(), plan.refusals.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  // Equal times are ordered by memory, then by the knobs, so that the answer does not depend on threads.
  std::sort(priced.begin(), priced.end(), [](const Priced& a, const Priced& b) {
    const auto key = [](const Priced& p) {
      const Candidate& c = p.candidate;
      return std::make_tuple(p.seconds, p.peak, c.tensor, c.pipeline, c.context, c.virtual_pipeline, c.expert,
                             c.expert_tensor, c.micro_batch, c.recompute, c.stage, c.layout, c.context_messages,
                             c.tensor_overlap, c.optimizer_offload);
    };
    return key(a) < key(b);
  });
  plan.pareto = pareto_of(priced);
  if (options.objective == Objective::kHeadroom)
    std::stable_sort(priced.begin(), priced.end(), [](const Priced& a, const Priced& b) { return a.peak < b.peak; });

  const Evaluator evaluator(job, space);
  for (const Priced& p : priced) {
    if (plan.best.size() == options.keep) break;
    const auto made = evaluator.make(p.candidate);
    if (!made) continue;
    Found found;
    found.candidate = p.candidate;
    found.settings = settings_of(space, p.candidate, *made);
    if (!walks(*made, found)) {
      job::Job with = *made;
      with.environment["PYTORCH_CUDA_ALLOC_CONF"] = kExpandable;
      if (!walks(with, found)) {
        ++plan.counts.walked_out;
        continue;
      }
      found.expandable = true;
      found.settings.emplace_back("environment.PYTORCH_CUDA_ALLOC_CONF", std::string(kExpandable));
    }
    if (auto time = timing::predict(found.job); time) found.time = *std::move(time);
    plan.best.push_back(std::move(found));
  }
  if (options.objective == Objective::kTime)
    std::stable_sort(plan.best.begin(), plan.best.end(),
                     [](const Found& a, const Found& b) { return a.time.seconds < b.time.seconds; });
  return plan;
}

}  // namespace plimsoll::plan
