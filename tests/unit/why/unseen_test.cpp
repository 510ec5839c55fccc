// SPDX-License-Identifier: Apache-2.0
// Kinds of lines that logs of other threads had and no labelled log: each by what it is, in words made for the test.
#include <gtest/gtest.h>

#include "why/complaint.h"
#include "why/progress.h"
#include "why/support.h"

namespace plimsoll::why {
namespace {

// The number decides, not the language of the words after it.
TEST(Unseen, numbers_of_windows_are_those_of_posix) {
  EXPECT_EQ(answer_for("OSError: [WinError 1455] Die Auslagerungsdatei ist zu klein: 'a.dll'\n").cause(),
            "host-ram-kill");
  EXPECT_EQ(answer_for("OSError: [WinError 112] Es steht nicht genug Speicherplatz bereit: 'D:\\a.pt'\n").cause(),
            "disk-full");
  EXPECT_EQ(answer_for("PermissionError: [WinError 5] Zugriff verweigert\n").cause(), "not-memory");
  EXPECT_EQ(parse_system_error("load: os error 1455")->number, 12);
  EXPECT_EQ(parse_system_error("connect: os error 112")->number, 112);  // a number of POSIX keeps its meaning
}

TEST(Unseen, a_shells_report_on_a_job_is_its_word_for_a_kill) {
  EXPECT_TRUE(is_shell_killed("[1]    4242 killed     python tune.py"));
  EXPECT_TRUE(is_shell_killed("[2]+  Killed   python tune.py"));
  EXPECT_FALSE(is_shell_killed("[2] tasks killed nobody"));
  const Answer answer =
      answer_for("Loading checkpoint shards:   0%|      | 0/3 [00:00<?, ?it/s][1]    77 killed     python t.py\n");
  EXPECT_EQ(answer.cause(), "model-load-spike");
}

TEST(Unseen, frames_of_a_traced_program_stand_inside_out) {
  const Answer answer = answer_for(
      "Traceback of TorchScript (most recent call last):\n/w/nn/linear.py(11): forward\n/w/decoder.py(26): forward\n"
      "/w/run.py(30): validate_epoch\nRuntimeError: CUDA out of memory.\n");
  EXPECT_EQ(answer.cause(), "eval-accumulation");
}

TEST(Unseen, bars_without_an_end_count_steps_beside_a_loss_only) {
  EXPECT_EQ(parse_bar("loss: 5.09 : 8613it [27:42,  5.34it/s]")->at, 8613);
  EXPECT_FALSE(parse_bar("reading lines: 8613it [00:01, 5340.00it/s]"));
  EXPECT_EQ(parse_bar("----| 47.90% [24138/50393 1:48:07<1:57:37 1.6910]")->at, 24138);
}

// After many steps without a figure two causes are left: one long batch, or something that piled up.
TEST(Unseen, late_and_without_figures_is_a_long_batch_or_a_leak) {
  const Answer answer = answer_for(
      "loss: 5.09 : 8613it [27:42,  5.34it/s]\nTraceback (most recent call last):\n  File \"t.py\", line 2, in main\n"
      "    go(options)\nRuntimeError: CUDA out of memory.\n");
  EXPECT_EQ(answer.cause(), "longest-batch");
  EXPECT_EQ(answer.second(), "memory-leak");
}

TEST(Unseen, a_server_that_answered_requests_had_found_its_place) {
  const Answer answer = answer_for(
      "INFO: 10.0.0.1:80 - \"POST /v1/generate HTTP/1.1\" 200 OK\nERROR CUDA out of memory. Tried to allocate 1.20 "
      "GiB. "
      "GPU 0 has a total capacity of 39.40 GiB of which 120.00 MiB is free. Of the allocated memory 37.90 GiB is "
      "allocated by PyTorch, and 80.00 MiB is reserved by PyTorch but unallocated.\n");
  EXPECT_EQ(answer.cause(), "serving-headroom");
}

TEST(Unseen, what_could_not_even_make_a_context_held_nothing) {
  EXPECT_EQ(answer_for("Internal: failed call to cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY\n").cause(),
            "other-process");
}

// TensorFlow's allocator asks for the device, then for nine tenths of it, and so on.
TEST(Unseen, a_request_that_backs_off_met_others_on_the_device) {
  const char* text =
      "E driver.cc:6] failed to allocate 10.00G (10737418240 bytes) from device: HIP_ERROR_OutOfMemory\n"
      "E driver.cc:6] failed to allocate 9.00G (9663676416 bytes) from device: HIP_ERROR_OutOfMemory\n"
      "E driver.cc:6] failed to allocate 8.10G (8697308774 bytes) from device: HIP_ERROR_OutOfMemory\n";
  EXPECT_EQ(answer_for(text).cause(), "other-process");
}

TEST(Unseen, no_device_has_a_hundred_tebibytes) {
  const Answer answer =
      answer_for("E driver.cc:6] failed to allocate 120.00TiB (131941395333120 bytes) from device: out of memory\n");
  EXPECT_EQ(answer.cause(), "not-memory");
  EXPECT_LT(answer.diagnosis.confidence, 0.8);
}

TEST(Unseen, an_engine_names_the_pool_that_had_no_room) {
  const Answer answer = answer_for(
      "[E] Executor creation failed due to insufficient GPU memory.\nThis component could not be created: KV cache\n");
  EXPECT_EQ(answer.cause(), "kv-cache-too-small");
}

TEST(Unseen, the_class_of_an_exception_does_not_say_whose_memory_it_was) {
  EXPECT_EQ(resource_word(answer_for("MemoryError: Cannot allocate 50.0MB memory on GPU 0, 12.0GB is in use\n")),
            "device");
  EXPECT_EQ(resource_word(answer_for("load: failed to allocate CPU buffer of size 437944320\n")), "host");
}

// A kill by its number alone may be a script's or an operator's.
TEST(Unseen, a_number_says_less_than_the_word) {
  EXPECT_LT(answer_for("step web: Exited with code 137\n").diagnosis.confidence, 0.8);
  EXPECT_GE(answer_for("run.sh: line 3:  77 Killed   python tune.py\n").diagnosis.confidence, 0.8);
}

// A file's reader restores tensors, weights as well as states: that alone is no resume.
TEST(Unseen, reading_weights_is_not_resuming) {
  const Answer answer = answer_for(
      "Traceback (most recent call last):\n  File \"dream.py\", line 12, in read_net\n"
      "    net.load_state_dict(torch.load(path))\n"
      "  File \"/w/site-packages/torch/serialization.py\", line 66, in persistent_load\n"
      "    obj = restore_location(obj, location)\nRuntimeError: CUDA error: out of memory\n");
  EXPECT_NE(answer.cause(), "checkpoint-spike");
}

}  // namespace
}  // namespace plimsoll::why
