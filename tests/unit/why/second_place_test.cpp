// SPDX-License-Identifier: Apache-2.0
// The second place: the cause that is meant where the first is not, by what the log does not contradict.
#include <gtest/gtest.h>

#include "why/neighbours.h"
#include "why/support.h"

namespace plimsoll::why {
namespace {

struct Row {
  const char* text;
  const char* first;
  const char* second;
};

TEST(SecondPlace, is_what_the_first_is_taken_for) {
  const Row rows[] = {
      // A kill before any step may have come while a model was on its way in; after many, something may have piled up.
      {"starting\nrun.sh: line 3:  77 Killed   python tune.py\n", "host-ram-kill", "model-load-spike"},
      {"step 10 loss 2.1\nstep 20 loss 2.0\nstep 30 loss 2.0\nstep 40 loss 1.9\nstep 50 loss 1.9\nstep 60 loss 1.8\n"
       "step 70 loss 1.8\nstep 80 loss 1.8\nstep 90 loss 1.7\nstep 100 loss 1.7\nstep 110 loss 1.7\n"
       "kernel: Out of memory: Killed process 31 (python) total-vm:9kB, anon-rss:8kB\n",
       "host-ram-kill", "memory-leak"},
      {"slurmstepd: error: Detected 1 oom_kill event in StepId=9.0.\n", "host-ram-kill", "model-load-spike"},
      {"OSError: [Errno 24] Too many open files: '/data/part-7'\n", "fd-limit", "not-memory"},
      {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n",
       "cublas-cudnn-alloc", "not-memory"},
      {"node3:9:12 [2] alloc.h:90 NCCL WARN Cuda failure 'out of memory'\n", "nccl-memory", "genuine-capacity"},
      {"OSError: [Errno 122] Disk quota exceeded: '/home/x/log'\n", "disk-full", "host-ram-kill"},
      {"Traceback (most recent call last):\n  File \"tune.py\", line 8, in main\n    check(options)\n"
       "ValueError: the list of names is empty\n",
       "not-memory", "config-conflict"},
  };
  for (const Row& row : rows) {
    const Answer answer = answer_for(row.text);
    EXPECT_EQ(answer.cause(), row.first) << row.text;
    EXPECT_EQ(answer.second(), row.second) << row.text;
  }
}

TEST(SecondPlace, a_neighbour_is_never_the_first_and_never_likely) {
  for (const Labelled& one : everything()) {
    const Answer answer = answer_for(one.text);
    const auto& candidates = answer.diagnosis.candidates;
    if (!answer.diagnosis.failure || candidates.size() < 2) continue;
    EXPECT_NE(candidates[0].cause, candidates[1].cause) << one.name;
    EXPECT_LE(candidates[1].probability, candidates[0].probability) << one.name;
    double sum = 0;
    for (const Candidate& candidate : candidates) sum += candidate.probability;
    EXPECT_LE(sum, 1.0001) << one.name;
  }
}

// A serving engine that runs has filled its share of the device, not all of it: what failed beside it is named.
TEST(SecondPlace, an_engine_that_serves_is_short_of_what_lies_beside_its_cache) {
  const Answer answer = answer_for(
      "INFO vllm engine ready\nvllm/worker: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 300.00 MiB. "
      "GPU 0 has a total capacity of 44.40 GiB of which 120.00 MiB is free. Of the allocated memory 39.10 GiB is "
      "allocated by PyTorch, and 80.00 MiB is reserved by PyTorch but unallocated.\n");
  EXPECT_TRUE(answer.cause() == "serving-headroom" || answer.second() == "serving-headroom");
}

// XLA reserves the device at its start: where nothing had run, what is missing is likely somebody else's.
TEST(SecondPlace, a_runtime_that_takes_the_whole_device_meets_others_on_it) {
  const char* text = "RESOURCE_EXHAUSTED: Attempting to allocate 9.00G. That was not possible. There are 4.00G free.\n";
  EXPECT_EQ(answer_for(text).second(), "other-process");
  EXPECT_NE(answer_for("RuntimeError: CUDA out of memory. Tried to allocate 9.00 GiB\n").second(), "other-process");
}

// The lines of a trainer that print no step count steps all the same, and show that memory stood still.
TEST(SecondPlace, steps_without_a_number_are_steps) {
  std::string log;
  for (int i = 0; i < 8; ++i)
    log += "{'loss': 1.1, 'learning_rate': 1e-05, 'memory/max_allocated(gib)': 30.2, 'epoch': 0.1}\n";
  log +=
      "Traceback (most recent call last):\n  File \"tune.py\", line 3, in main\n    out = model(batch)\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 79.10 GiB "
      "of which 2.00 GiB is free. Of the allocated memory 74.00 GiB is allocated by PyTorch, and 500.00 MiB is "
      "reserved "
      "by PyTorch but unallocated.\n";
  EXPECT_EQ(answer_for(log).cause(), "longest-batch");
}

// Python has one class for memory. A device's allocator that raises it speaks of its device.
TEST(SecondPlace, a_memory_error_of_a_devices_allocator_is_the_devices) {
  const char* host =
      "Traceback (most recent call last):\n  File \"tables.py\", line 4, in read\n    rows = "
      "bytearray(n)\nMemoryError\n";
  const char* device =
      "Traceback (most recent call last):\n  File \"rt/ops_gpu.py\", line 4, in _alloc\n    return self.dev.alloc(n)\n"
      "MemoryError: cannot allocate 9000000000 bytes\n";
  EXPECT_EQ(answer_for(host).cause(), "host-ram-kill");
  EXPECT_EQ(resource_word(answer_for(device)), "device");
}

}  // namespace
}  // namespace plimsoll::why
