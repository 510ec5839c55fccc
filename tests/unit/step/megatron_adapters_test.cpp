// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "step/megatron/adapter.h"

namespace plimsoll::step::megatron {
namespace {

TEST(MegatronAdapters, ExcludedModulesHaveNone) {
  job::Job job;
  job.adapter.kind = job::AdapterKind::kLora;
  job.adapter.excluded = {"linear_fc2"};
  const AdaptedLinears linears = adapted_linears(job);
  EXPECT_TRUE(linears.qkv);
  EXPECT_TRUE(linears.fc1);
  EXPECT_FALSE(linears.fc2);
}

}  // namespace
}  // namespace plimsoll::step::megatron
