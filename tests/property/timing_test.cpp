// SPDX-License-Identifier: Apache-2.0
// Claims about time that hold for every Megatron job, tried on thousands of random ones.
#include <gtest/gtest.h>

#include "random_job.h"
#include "timing/chunks.h"
#include "timing/queue.h"
#include "timing/step_time.h"

namespace plimsoll {
namespace {

using testing::random_megatron_job;

constexpr std::uint64_t kJobs = 3000;

timing::StepTime time_of(const job::Job& job, timing::Detail detail = timing::Detail::kFull) {
  timing::Options options;
  options.detail = detail;
  return timing::predict(job, options).value();
}

TEST(TimingProperty, parts_are_never_negative_and_sum_to_the_step) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    const auto job = random_megatron_job(seed);
    if (!job) continue;
    const timing::StepTime time = time_of(*job);
    double sum = 0;
    for (const timing::NamedPart& part : timing::named_parts()) {
      ASSERT_GE(time.parts.*part.field, -1e-9) << "seed " << seed << ' ' << part.key;
      sum += time.parts.*part.field;
    }
    ASSERT_EQ(sum, time.seconds) << "seed " << seed;
    ASSERT_GT(time.seconds, 0) << "seed " << seed;
    ASSERT_LT(time.mfu, 1) << "seed " << seed;
  }
}

// Every launch of one rank's layers and micro-batches, issued one after the other.
double simulated_host(const job::Job& job, const timing::Prices& prices, std::int64_t layers) {
  step::WorkList list;
  step::layer_work(job, job.model.layer(job.model.depth() - 1), false, list);
  const timing::LayerLaunches one = timing::layer_launches(job, prices, list);
  timing::Queue queue;
  const auto run = [&](const auto& launches, bool drains) {
    for (std::ptrdiff_t i = 0; i < one.count; ++i) {
      if (drains && i == one.drain) queue.drain(prices.moe_sync);
      queue.issue(launches[static_cast<std::size_t>(i)]);
    }
  };
  // The first forward of a step finds the GPU idle, which the closed form of a pass does not see.
  constexpr int kMicroBatches = 8;
  for (int m = 0; m < kMicroBatches; ++m) {
    for (std::int64_t l = 0; l < layers; ++l) run(one.forward, true);
    for (std::int64_t l = 0; l < layers; ++l) {
      run(one.replay, one.drains_replay);
      run(one.backward, false);
    }
  }
  return queue.seconds() / kMicroBatches;
}

TEST(TimingProperty, the_closed_form_of_the_host_is_within_two_percent_of_its_queue) {
  std::size_t drained = 0;
  std::size_t host_bound = 0;
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    const auto job = random_megatron_job(seed);
    if (!job || job->recompute.method == job::RecomputeMethod::kBlock) continue;
    if (job->offload.activations || job->offload.fine_grained) continue;  // adds time of its own
    const timing::Machine machine(job->cluster, timing::built_in());
    const timing::Prices prices(*job, machine, false);
    timing::ChunkPricer pricer(*job, prices);
    job::Chunk chunk;
    chunk.first_layer = job->model.depth() - 1;
    chunk.num_layers = 1;
    timing::ChunkCost cost = pricer.price_chunk(chunk);
    constexpr std::int64_t kLayers = 24;
    const double closed = static_cast<double>(kLayers) * (cost.forward_seconds + cost.backward_seconds);
    const double exact = simulated_host(*job, prices, kLayers);
    EXPECT_NEAR(closed, exact, 0.02 * exact)
        << "seed " << seed << " forward " << cost.forward.host << ' ' << cost.forward.gpu() << ' '
        << cost.forward.serial << " backward " << cost.backward.host << ' ' << cost.backward.gpu() << " replay "
        << cost.replay.host << ' ' << cost.replay.gpu() << ' ' << cost.replay.serial;
    drained += cost.forward.serial > 0 ? 1 : 0;
    host_bound += cost.forward.host > cost.forward.gpu() ? 1 : 0;
  }
  EXPECT_GT(drained, 20U);
  EXPECT_GT(host_bound, 20U);
}

TEST(TimingProperty, recompute_never_makes_a_step_faster) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    auto job = random_megatron_job(seed);
    if (!job) continue;
    const double with = time_of(*job).seconds;
    job->recompute = {};
    ASSERT_LE(time_of(*job).seconds, with * (1 + 1e-9)) << "seed " << seed;
  }
}

TEST(TimingProperty, more_micro_batches_shrink_the_share_of_the_bubble) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    auto job = random_megatron_job(seed);
    if (!job || job->parallel.pipeline == 1) continue;
    const timing::StepTime few = time_of(*job);
    job->micro_batches *= 4;
    const timing::StepTime many = time_of(*job);
    ASSERT_LE(many.parts.bubble / many.seconds, few.parts.bubble / few.seconds + 0.01) << "seed " << seed;
  }
}

TEST(TimingProperty, sizes_of_one_send_nothing) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    const auto job = random_megatron_job(seed);
    if (!job) continue;
    const timing::Breakdown parts = time_of(*job).parts;
    if (job->parallel.tensor == 1) {
      ASSERT_EQ(parts.tensor, 0) << "seed " << seed;
    }
    if (job->parallel.context == 1) {
      ASSERT_EQ(parts.context, 0) << "seed " << seed;
    }
    if (job->parallel.pipeline == 1) {
      ASSERT_EQ(parts.bubble + parts.pipeline, 0) << "seed " << seed;
    }
  }
}

TEST(TimingProperty, the_closed_form_is_close_to_the_simulation) {
  for (std::uint64_t seed = 0; seed < kJobs; ++seed) {
    const auto job = random_megatron_job(seed);
    if (!job) continue;
    const double simulated = time_of(*job).seconds;
    const double fast = time_of(*job, timing::Detail::kFast).seconds;
    ASSERT_GT(fast, 0.75 * simulated) << "seed " << seed;
    ASSERT_LT(fast, 1.25 * simulated) << "seed " << seed;
    if (job->parallel.pipeline == 1) {
      ASSERT_EQ(fast, simulated) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace plimsoll
