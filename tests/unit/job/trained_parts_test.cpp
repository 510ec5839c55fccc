// SPDX-License-Identifier: Apache-2.0
// Scripts that train a part of a model are not answered as if they trained all of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::job {
namespace {

using test::on;
using test::read_text;
using test::text_of;
using testing::HasSubstr;

Result<Job> with_flags(const std::string& flags) {
  return read_text(
      "#!/bin/bash\ntorchrun --nproc_per_node 8 llava/train/train_mem.py --model_name_or_path Qwen/Qwen2-7B-Instruct "
      "--bf16 True --per_device_train_batch_size 2 --model_max_length 2048 --learning_rate 1e-5 --output_dir out " +
          flags + "\n",
      on("h100"));
}

TEST(TrainedParts, the_projector_alone_is_refused) {
  for (const char* flags : {"--mm_tunable_parts=mm_mlp_adapter", "--tune_mm_projector True --tune_language_model False",
                            "--low_rank_training True"}) {
    const auto job = with_flags(flags);
    ASSERT_FALSE(job) << flags;
    EXPECT_THAT(job.error().message, HasSubstr("not modelled"));
  }
}

TEST(TrainedParts, a_list_with_the_language_model_is_read) {
  const auto job = with_flags("--mm_tunable_parts=mm_vision_tower,mm_mlp_adapter,mm_language_model --use_liger True");
  ASSERT_TRUE(job) << text_of(job);
  EXPECT_EQ(job->batch.micro_batch, 2);
}

}  // namespace
}  // namespace plimsoll::job
