// SPDX-License-Identifier: Apache-2.0
// A search finds what pricing every point of its space finds, and what it skips would not have fitted: tried on a
// thousand random small spaces of random models. The oracle prices with memory without end, so that it shares neither
// the early end of a price nor the skipping of larger micro-batches with the search.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "plan/keeper.h"
#include "plan/search.h"
#include "random_job.h"
#include "step/program.h"

namespace plimsoll {
namespace {

using testing::chance;
using testing::one_of;
using testing::random_megatron_job;

constexpr std::size_t kSpaces = 1000;
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

// At most `most` of the values, in their order.
template <class T>
void thin(std::mt19937_64& random, std::vector<T>& values, std::size_t most) {
  while (values.size() > most) values.erase(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

plan::Space random_space(std::mt19937_64& random, const job::Job& job) {
  plan::Space space = plan::make_space(job, {});
  thin(random, space.tensor, 2);
  thin(random, space.pipeline, 2);
  thin(random, space.virtual_pipeline, 2);
  thin(random, space.context, 2);
  thin(random, space.expert, 2);
  thin(random, space.expert_tensor, 1 + random() % 2);
  thin(random, space.context_messages, 1);
  thin(random, space.tensor_overlap, 1);
  thin(random, space.expert_overlap, 1 + random() % 2);
  thin(random, space.states, 1 + random() % 2);
  thin(random, space.activations, 2);
  thin(random, space.micro_batch, 3);
  return space;
}

std::vector<plan::Candidate> every_point(const plan::Space& space, const job::Job& job) {
  std::vector<plan::Candidate> points;
  plan::for_each_split(space, job, [&](const plan::Candidate& split) {
    plan::for_each_point(space, job, split, [&](const plan::Candidate& c) { points.push_back(c); });
  });
  return points;
}

std::vector<plan::Priced> price_all(job::Job job, const plan::Space& space,
                                    const std::vector<plan::Candidate>& points) {
  job.cluster.gpu.capacity = kNoLimit;
  std::vector<plan::Priced> priced;
  for (const plan::Candidate& point : points)
    if (const auto price = plan::price(job, space, point); price && price->peak != plan::kHostTooSmall)
      priced.push_back(*price);
  return priced;
}

// A capacity between the smallest and the largest need, and now and then one below or above all.
std::int64_t random_capacity(std::mt19937_64& random, std::vector<plan::Priced> priced) {
  std::sort(priced.begin(), priced.end(), [](const auto& a, const auto& b) { return a.peak < b.peak; });
  if (chance(random, 5)) return priced.front().peak - 1;
  return priced[random() % priced.size()].peak;
}

std::vector<plan::Priced> front_of(std::vector<plan::Priced> fitting) {
  std::vector<plan::Priced> front;
  for (const plan::Priced& p : fitting) {
    const bool beaten = std::any_of(fitting.begin(), fitting.end(), [&p](const plan::Priced& other) {
      return other.seconds <= p.seconds && other.peak <= p.peak && (other.seconds < p.seconds || other.peak < p.peak);
    });
    const bool slow = std::any_of(fitting.begin(), fitting.end(), [&p](const plan::Priced& other) {
      return p.seconds > plan::kFrontSlowdown * other.seconds;
    });
    const bool known = std::any_of(front.begin(), front.end(), [&p](const plan::Priced& other) {
      return other.seconds == p.seconds && other.peak == p.peak;
    });
    if (!beaten && !known && !slow) front.push_back(p);
  }
  std::sort(front.begin(), front.end(), [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return front;
}

// Nothing: the draw contradicts itself.
std::optional<job::Job> random_question(std::uint64_t seed) {
  auto job = random_megatron_job(seed);
  if (!job) return std::nullopt;
  std::mt19937_64 random(seed);
  job->cluster.gpus = one_of<std::int64_t>(random, {4, 8, 16, 24});
  job->batch.global_batch = one_of<std::int64_t>(random, {8, 16, 48});
  return job;
}

TEST(PlanProperty, search_equals_brute_force) {
  std::size_t spaces = 0;
  std::size_t points_tried = 0;
  std::size_t with_some_too_large = 0;
  std::size_t with_moe = 0;
  std::size_t skipped = 0;
  std::size_t slower = 0;
  // First one where fewer micro-batches than stages need less memory than more smaller ones.
  std::vector<std::uint64_t> hard = {19668};
  for (std::uint64_t next = 0; spaces < kSpaces;) {
    const std::uint64_t seed = hard.empty() ? next++ : hard.back();
    if (!hard.empty()) hard.pop_back();
    ASSERT_LT(seed, 20 * kSpaces) << "most draws should be real jobs";
    auto job = random_question(seed);
    if (!job) continue;
    std::mt19937_64 random(seed);
    const plan::Space space = random_space(random, *job);
    const std::vector<plan::Candidate> points = every_point(space, *job);
    const std::vector<plan::Priced> priced = price_all(*job, space, points);
    if (priced.empty()) continue;
    job->cluster.gpu.capacity = random_capacity(random, priced);
    std::vector<plan::Priced> fitting;
    for (const plan::Priced& p : priced)
      if (p.peak <= job->cluster.gpu.capacity) fitting.push_back(p);
    std::sort(fitting.begin(), fitting.end(), plan::is_faster);
    const std::vector<plan::Priced> front = front_of(fitting);

    plan::SearchOptions options;
    options.keep = 0;
    options.simulated = 1 + seed % 4;
    options.threads = 1 + seed % 2;
    options.lanes = 1 + seed % 3;
    const plan::Plan plan = plan::search(*job, space, options);

    const plan::Counts& c = plan.counts;
    ASSERT_EQ(c.considered, points.size()) << "seed " << seed;
    ASSERT_EQ(c.refused + c.does_not_fit + c.skipped + c.slower + c.no_host + c.fits, points.size()) << "seed " << seed;
    ASSERT_EQ(plan.closed.size(), std::min(options.simulated, fitting.size())) << "seed " << seed;
    for (std::size_t i = 0; i < plan.closed.size(); ++i) {
      ASSERT_EQ(plan.closed[i].seconds, fitting[i].seconds) << "seed " << seed;
      ASSERT_EQ(plan.closed[i].peak, fitting[i].peak) << "seed " << seed;
    }
    ASSERT_EQ(plan.pareto.size(), front.size()) << "seed " << seed;
    for (std::size_t i = 0; i < front.size(); ++i) {
      ASSERT_EQ(plan.pareto[i].seconds, front[i].seconds) << "seed " << seed;
      ASSERT_EQ(plan.pareto[i].peak, front[i].peak) << "seed " << seed;
    }
    if (fitting.empty()) {
      const auto least = std::min_element(priced.begin(), priced.end(), plan::is_leaner);
      ASSERT_EQ(plan.least_peak, least->peak) << "seed " << seed;
    }
    ++spaces;
    points_tried += points.size();
    with_some_too_large += fitting.size() < priced.size() ? 1 : 0;
    skipped += c.skipped;
    slower += c.slower;
    with_moe += job->model.has_moe() ? 1 : 0;
  }
  EXPECT_GT(points_tried, 20 * kSpaces);
  EXPECT_GT(with_some_too_large, kSpaces / 2) << "capacities should divide the spaces";
  EXPECT_GT(with_moe, kSpaces / 10);
  EXPECT_GT(skipped, kSpaces / 2) << "what is skipped is the point of the test";
  EXPECT_GT(slower, kSpaces) << "what is passed over is the point of the test";
}

// The claims that bounds rest on.
TEST(PlanProperty, keeping_activations_is_never_slower) {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    auto job = random_question(seed);
    if (!job || job->offload.activations || job->offload.fine_grained) continue;
    job->cluster.gpu.capacity = kNoLimit;
    const plan::Space space = plan::make_space(*job, {});
    std::vector<plan::Candidate> splits;
    plan::for_each_split(space, *job, [&](const plan::Candidate& c) { splits.push_back(c); });
    if (splits.empty()) continue;
    std::mt19937_64 random(seed);
    plan::Candidate c = splits[random() % splits.size()];
    c.micro_batch = one_of<std::int32_t>(random, {1, 2});
    c.activations = 0;
    const auto kept = plan::price(*job, space, c);
    if (!kept) continue;
    ASSERT_EQ(space.activations[0].label, "none");
    for (std::size_t i = 1; i < space.activations.size(); ++i) {
      plan::Candidate other = c;
      other.activations = static_cast<std::int16_t>(i);
      const auto priced = plan::price(*job, space, other);
      if (!priced) continue;
      ++compared;
      ASSERT_GE(priced->seconds, kept->seconds) << "seed " << seed << ", " << space.activations[i].label;
    }
  }
  EXPECT_GT(compared, 500U);
}

TEST(PlanProperty, what_earlier_points_measured_changes_no_price) {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    auto job = random_question(seed);
    if (!job) continue;
    job->cluster.gpu.capacity = kNoLimit;
    const plan::Space space = plan::make_space(*job, {});
    std::vector<plan::Candidate> points;
    plan::for_each_split(space, *job, [&](const plan::Candidate& split) {
      plan::for_each_point(space, *job, split, [&](const plan::Candidate& c) { points.push_back(c); });
    });
    std::mt19937_64 random(seed);
    std::shuffle(points.begin(), points.end(), random);
    plan::Evaluator evaluator(*job, space);
    for (std::size_t i = 0; i < std::min<std::size_t>(points.size(), 40); ++i) {
      const auto alone = plan::price(*job, space, points[i]);
      if (!alone) continue;
      ASSERT_TRUE(evaluator.make(points[i]) && evaluator.floor());
      ASSERT_EQ(evaluator.peak(kNoLimit), alone->peak) << "seed " << seed << ", point " << i;
      ASSERT_EQ(evaluator.seconds(), alone->seconds) << "seed " << seed << ", point " << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000U);
}

TEST(PlanProperty, the_ranks_that_are_priced_hold_the_worst) {
  std::size_t left_out = 0;
  const step::Known known;  // of all jobs
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto job = random_megatron_job(seed);
    if (!job) continue;
    const auto layout = job::pipeline_layout(*job);
    ASSERT_TRUE(layout);
    const std::vector<std::int64_t> ranks = plan::ranks_to_price(*job, *layout);
    std::vector<std::int64_t> all;
    for (std::int64_t rank = 0; rank < job->parallel.pipeline; ++rank) all.push_back(rank);
    const auto worst_of = [&](const std::vector<std::int64_t>& some) {
      std::vector<step::StateProfile> states;
      for (const std::int64_t rank : some) states.push_back(step::profile_state(*job, *layout, rank));
      const std::int64_t peak = step::worst_need(*job, *layout, some, states, kNoLimit).peak;
      EXPECT_EQ(step::worst_need(*job, *layout, some, states, kNoLimit, &known).peak, peak) << "seed " << seed;
      return peak;
    };
    ASSERT_EQ(worst_of(ranks), worst_of(all)) << "seed " << seed;
    left_out += all.size() - ranks.size();
  }
  EXPECT_GT(left_out, 100U);
}

}  // namespace
}  // namespace plimsoll
