// SPDX-License-Identifier: Apache-2.0
// Logs whose form hides what they say: prefixes in prefixes, frames that a column breaks, tracebacks without an end,
// counts before their names, figures that a container's driver does not have.
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "why/support.h"

namespace plimsoll::why {
namespace {

TEST(CutAndWrapped, a_launchers_number_stands_before_the_rank) {
  const Answer answer = answer_for(
      "[0] [rank1]:   File \"/w/model.py\", line 62, in forward\n"
      "[0] [rank1]:     att = (q @ k.transpose(-2, -1)) * scale\n"
      "[0] [rank1]: torch.OutOfMemoryError: CUDA out of memory.\n");
  EXPECT_EQ(answer.diagnosis.phase, Phase::kForward);
  EXPECT_EQ(answer.diagnosis.rank, 1);
}

TEST(CutAndWrapped, a_frame_that_a_column_breaks_is_one) {
  const Answer answer = answer_for(
      "                 File\n"
      "                 \"/p/fairseq2/optim/_dynamic_\n"
      "                 loss_scaler.py\", line 170, in run_optimizer_step\n"
      "                     loss = self._grad_scaler.step(self._optimizer, closure)\n"
      "                 torch.OutOfMemoryError: CUDA out of memory.\n");
  EXPECT_EQ(answer.cause(), "optimizer-state-bound");
  // What never becomes a frame is given up.
  EXPECT_EQ(answer_for("File\none\ntwo\nthree\nfour\nfive\nsix\nseven\n"
                       "torch.OutOfMemoryError: CUDA out of memory.\n")
                .diagnosis.resource,
            Resource::kDevice);
}

TEST(CutAndWrapped, the_line_that_raises_says_what_a_cut_traceback_does_not) {
  const Answer answer = answer_for(
      "Traceback (most recent call last):\n"
      "  File \"/p/vllm/v1/core/kv_cache_utils.py\", line 699, in check_enough_kv_cache_memory\n"
      "    raise ValueError(\"No available memory for the cache blocks. \"\n");
  EXPECT_EQ(answer.cause(), "kv-cache-too-small");
  EXPECT_NE(answer_for("Traceback (most recent call last):\n"
                       "  File \"/w/a.py\", line 6, in check\n    raise ValueError(names[\n")
                .cause(),
            "kv-cache-too-small");
}

TEST(CutAndWrapped, frames_of_a_training_loop_are_of_a_step) {
  const Answer answer = answer_for(
      "/p/pytorch_lightning/trainer/training_loop.py in run_training_batch(self, batch)\n"
      "    490             # ---\n--> 492             self.manual(batch)\n\n"
      "RuntimeError: CUDA out of memory.\n");
  EXPECT_EQ(answer.diagnosis.phase, Phase::kTrain);
  EXPECT_EQ(answer.cause(), "activation-bound");
}

// The driver of a container may count nothing for any process: a process that holds tensors holds more than nothing.
TEST(CutAndWrapped, processes_of_no_bytes_hold_the_device_all_the_same) {
  const Answer answer = answer_for(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total capacity of 79.10 "
      "GiB of which 12.81 MiB is free. Process 3427 has 0 bytes memory in use. Including non-PyTorch memory, this "
      "process has 0 bytes memory in use. Of the allocated memory 10.47 GiB is allocated by PyTorch, and 93.52 MiB is "
      "reserved by PyTorch but unallocated.\n");
  EXPECT_EQ(answer.cause(), "other-process");
  EXPECT_GT(answer.diagnosis.sum.others, 60 * kGiB);
}

TEST(CutAndWrapped, a_process_that_holds_little_has_no_pieces) {
  const Answer answer = answer_for(
      "RuntimeError: CUDA out of memory. Tried to allocate 686.00 MiB (GPU 0; 8.00 GiB total capacity; 436.97 MiB "
      "already allocated; 5.60 GiB free; 17.03 MiB cached)\n");
  EXPECT_EQ(answer.cause(), "other-process");
}

TEST(CutAndWrapped, a_small_device_is_too_small_rather_than_in_pieces) {
  EXPECT_EQ(answer_for("RuntimeError: CUDA out of memory. Tried to allocate 264.00 MiB (GPU 0; 2.00 GiB total "
                       "capacity; 788.51 MiB already allocated; 145.93 MiB free; 1.02 GiB reserved in total by "
                       "PyTorch)\n")
                .cause(),
            "genuine-capacity");
}

TEST(CutAndWrapped, a_checkpoint_on_another_device_than_the_first_is_one_of_several) {
  const std::string frames =
      "  File \"/p/transformers/modeling_utils.py\", line 3260, in _load_pretrained_model\n    load(model)\n";
  const auto message = [](int gpu) {
    return "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 448.00 MiB (GPU " + std::to_string(gpu) +
           "; 79.32 GiB total capacity; 78.58 GiB already allocated; 259.56 MiB free; 78.58 GiB reserved in total by "
           "PyTorch)\n";
  };
  EXPECT_EQ(answer_for(frames + message(7)).cause(), "model-load-spike");
  EXPECT_EQ(answer_for(frames + message(0)).cause(), "genuine-capacity");
}

TEST(CutAndWrapped, a_count_before_its_name_is_a_step) {
  const Answer answer = answer_for(
      "INFO: 1epoch:train:201-300batch: forward_time=0.28, loss=3.9, train_time=2.0\n"
      "INFO: 1epoch:train:301-400batch: forward_time=0.27, loss=3.4, train_time=1.8\n"
      "RuntimeError: CUDA out of memory.\n");
  EXPECT_EQ(answer.diagnosis.step, 400);
  EXPECT_EQ(answer.cause(), "longest-batch");
}

TEST(CutAndWrapped, a_bar_that_counts_tasks_is_evaluation) {
  const Answer answer = answer_for(
      "[>>>       ] 433/3822, 15.9 task/s, elapsed: 27s, ETA:   213s\n"
      "Traceback (most recent call last):\n"
      "  File \"/p/mmcv/runner/epoch_based_runner.py\", line 54, in train\n    self.call_hook('after_train_epoch')\n"
      "RuntimeError: CUDA out of memory.\n");
  EXPECT_EQ(answer.cause(), "eval-accumulation");
}

TEST(CutAndWrapped, what_an_evaluation_gathers_may_be_beyond_any_host) {
  const std::string array =
      "numpy.core._exceptions.MemoryError: Unable to allocate 2.77 TiB for an array with shape (200000, 77, 50257)\n";
  EXPECT_EQ(answer_for("  File \"/p/trainer.py\", line 9, in evaluate\n    self.gather(logits)\n" + array).cause(),
            "host-ram-kill");
  EXPECT_EQ(answer_for(array).cause(), "not-memory");
}

TEST(CutAndWrapped, a_shells_report_on_a_job_that_aborted_is_a_failure) {
  const Answer answer =
      answer_for("run.sh: line 184: 2324239 Aborted                 (core dumped) litgpt pretrain $model\n");
  EXPECT_TRUE(answer.diagnosis.failure);
  EXPECT_EQ(answer.cause(), "not-memory");
}

}  // namespace
}  // namespace plimsoll::why
