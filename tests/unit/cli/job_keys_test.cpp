// SPDX-License-Identifier: Apache-2.0
#include "cli/job_keys.h"

#include <gtest/gtest.h>

#include "answer/input.h"

namespace plimsoll::cli {
namespace {

TEST(JobKeys, know_what_stands_alone_and_what_wants_a_value) {
  const KeySet keys = job_keys();

  EXPECT_EQ(keys.kind_of("sequence_parallel"), KeyKind::kSwitch);
  EXPECT_EQ(keys.kind_of("micro_batch_size"), KeyKind::kValue);
  EXPECT_EQ(keys.kind_of("recompute_granularity"), KeyKind::kValue);
  EXPECT_EQ(keys.kind_of("environment.PYTORCH_CUDA_ALLOC_CONF"), KeyKind::kValue);
  EXPECT_EQ(keys.kind_of("micro_batch_sise"), KeyKind::kUnknown);
}

TEST(JobKeys, know_the_negated_names_of_frameworks) {
  EXPECT_EQ(job_keys().kind_of("no_rope_fusion"), KeyKind::kSwitch);
}

TEST(JobKeys, expand_the_short_names_to_keys_that_exist) {
  for (const char* brief : {"tp", "pp", "vpp", "cp", "ep", "etp"})
    EXPECT_EQ(job_keys().kind_of(answer::full_key_name(brief)), KeyKind::kValue) << brief;
  EXPECT_EQ(answer::full_key_name("seq_length"), "seq_length");
}

}  // namespace
}  // namespace plimsoll::cli
