// SPDX-License-Identifier: Apache-2.0
#include "job/knobs.h"

#include <gtest/gtest.h>

namespace plimsoll::job {
namespace {

template <class Enum>
void every_name_reads_back(int count) {
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<Enum>(i);
    const std::string_view name = name_of(value);

    ASSERT_NE(name, "unknown") << i;
    ASSERT_EQ(from_name<Enum>(name), value) << name;
    ASSERT_NE(choices<Enum>().find(name), std::string::npos) << name;
  }
  EXPECT_EQ(name_of(static_cast<Enum>(count)), "unknown");
  EXPECT_EQ(from_name<Enum>("no such choice"), std::nullopt);
  EXPECT_EQ(from_name<Enum>(""), std::nullopt);
}

TEST(Knobs, every_name_of_every_choice_reads_back) {
  every_name_reads_back<Framework>(6);
  every_name_reads_back<DType>(4);
  every_name_reads_back<Fp8Recipe>(5);
  every_name_reads_back<CpCommType>(4);
  every_name_reads_back<PipelineSchedule>(2);
  every_name_reads_back<OptimizerKind>(6);
  every_name_reads_back<OptimizerImpl>(3);
  every_name_reads_back<ShardingKind>(6);
  every_name_reads_back<FsdpUnits>(4);
  every_name_reads_back<OffloadTarget>(3);
  every_name_reads_back<MegatronFsdpStrategy>(4);
  every_name_reads_back<RecomputeGranularity>(4);
  every_name_reads_back<RecomputeMethod>(2);
  every_name_reads_back<AdapterKind>(3);
  every_name_reads_back<Implementation>(4);
  every_name_reads_back<AttentionBackend>(3);
  every_name_reads_back<LossKind>(6);
  every_name_reads_back<DispatcherKind>(4);
  every_name_reads_back<CudaGraphs>(3);
}

TEST(Knobs, other_frameworks_spellings_are_read) {
  EXPECT_EQ(from_name<DType>("bfloat16"), DType::kBf16);
  EXPECT_EQ(from_name<DType>("torch.float16"), DType::kFp16);
  EXPECT_EQ(from_name<Fp8Recipe>("current"), Fp8Recipe::kTensorwise);
  EXPECT_EQ(from_name<AttentionBackend>("sdpa"), AttentionBackend::kFlash);
  EXPECT_EQ(from_name<AttentionBackend>("eager"), AttentionBackend::kUnfused);
  EXPECT_EQ(from_name<Framework>("Megatron_LM"), Framework::kMegatronLm);
  EXPECT_EQ(from_name<PipelineSchedule>("Interleaved1F1B"), PipelineSchedule::k1F1B);
}

}  // namespace
}  // namespace plimsoll::job
