// SPDX-License-Identifier: Apache-2.0
#include "why/command_line.h"

#include <gtest/gtest.h>

#include "why/support.h"

namespace plimsoll::why {
namespace {

using Flags = std::vector<std::pair<std::string, std::string>>;

TEST(CommandLine, flags_and_values) {
  EXPECT_EQ(command_flags("torchrun --nproc-per-node 4 train.py --bf16 --lr=1e-5 --out runs/a"),
            (Flags{{"nproc_per_node", "4"}, {"bf16", "true"}, {"lr", "1e-5"}, {"out", "runs/a"}}));
  EXPECT_EQ(command_flags("    --per_device_train_batch_size 1 \\"), (Flags{{"per_device_train_batch_size", "1"}}));
  EXPECT_EQ(command_flags("[ERROR] [launch.py:434:sigkill_handler] ['/opt/python3.9', '-u', 'main.py', '--zero_stage', "
                          "'3', '--deepspeed'] exits with return code = 1"),
            (Flags{{"zero_stage", "3"}, {"deepspeed", "true"}}));
}

TEST(CommandLine, what_is_no_command_has_none) {
  for (const char* text :
       {"Try `--enforce-eager` or decreasing --gpu-memory-utilization", "please use --offload with python 3.10",
        "-------------------- end of arguments ---------------------", "--> compiled", "  --lr LR   the learning rate",
        "usage: train.py --lr LR --out OUT", "loss -- 2.0", ""})
    EXPECT_TRUE(command_flags(text).empty()) << text;
}

// What is on already is no advice.
TEST(CommandLine, fixes_heed_the_command) {
  const std::string failure =
      "Traceback (most recent call last):\n  File \"/w/t.py\", line 3, in train\n    loss.backward()\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 640.00 MiB (GPU 0; 23.65 GiB total capacity; "
      "22.90 "
      "GiB already allocated; 64.00 MiB free; 22.95 GiB reserved in total by PyTorch)\n";
  EXPECT_TRUE(answer_for("python train.py --seed 1\n" + failure).lists("recompute-layers"));
  EXPECT_FALSE(answer_for("python train.py --gradient_checkpointing True\n" + failure).lists("recompute-layers"));
  EXPECT_FALSE(answer_for("python train.py --micro_batch_size 1\n" + failure).lists("micro-batch"));
}

TEST(CommandLine, this_process_is_not_ended) {
  const Answer answer = answer_for(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 "
      "GiB "
      "of which 10.00 MiB is free. Process 4242 has 70.20 GiB memory in use. Process 991 has 8.80 GiB memory in use. "
      "Of "
      "the allocated memory 8.10 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but "
      "unallocated.\n");
  ASSERT_EQ(answer.first_fix(), "free-the-device");
  EXPECT_NE(answer.fixes.front().change.find("-p 4242;"), std::string::npos) << answer.fixes.front().change;
}

}  // namespace
}  // namespace plimsoll::why
