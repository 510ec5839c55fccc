// SPDX-License-Identifier: Apache-2.0
#include "timing/interval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "timing/support.h"

namespace plimsoll::timing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Interval, widens_with_experts_with_other_frameworks_and_with_waiting_for_the_host) {
  job::Job job = test::llama_70b();
  const double dense = relative_interval(job, 0);
  EXPECT_GT(relative_interval(job, 0.5), dense);
  job.framework = job::Framework::kTorchtitan;
  EXPECT_GT(relative_interval(job, 0), dense);
  job.framework = job::Framework::kMegatronBridge;
  job.model = model::find_model("qwen3-30b-a3b").value();
  EXPECT_GT(relative_interval(job, 0), dense);
  EXPECT_LT(relative_interval(job, 1), 1);
}

TEST(Interval, is_narrower_where_the_host_was_measured) {
  const job::Job job = test::llama_70b();
  EXPECT_LT(relative_interval(job, 0.5, Host::kMeasured), relative_interval(job, 0.5));
  EXPECT_GT(relative_interval(job, 0.5, Host::kMeasured), relative_interval(job, 0));
  EXPECT_DOUBLE_EQ(relative_interval(job, 0, Host::kMeasured), relative_interval(job, 0));
}

TEST(Interval, what_is_not_followed_is_named_and_widens_it) {
  job::Job job = test::llama_70b();
  EXPECT_THAT(unmodelled(job), IsEmpty());
  const double plain = relative_interval(job, 0);
  job.batch.packed = true;
  EXPECT_THAT(unmodelled(job), ElementsAre(HasSubstr("packed")));
  EXPECT_GT(relative_interval(job, 0), plain);
}

}  // namespace
}  // namespace plimsoll::timing
