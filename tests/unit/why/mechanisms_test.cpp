// SPDX-License-Identifier: Apache-2.0
// Facts that tell causes of the device apart by their definitions: what a buffer was for, how many samples a step
// takes, what computes, who was on the device before, how far a signal speaks for memory at all.
#include <gtest/gtest.h>

#include "why/batch.h"
#include "why/infer.h"
#include "why/progress.h"
#include "why/purpose.h"
#include "why/support.h"

namespace plimsoll::why {
namespace {

std::string first_of(const std::string& text) {
  const Answer answer = answer_for(text);
  return answer.diagnosis.failure ? answer.cause() : "clean";
}

TEST(Mechanisms, a_buffer_is_named_by_what_it_is_for) {
  EXPECT_EQ(phase_of_purpose("ctx_make: failed to allocate compute buffers"), Phase::kForward);
  EXPECT_EQ(phase_of_purpose("ctx_make: failed to allocate the KV cache"), Phase::kKvInit);
  EXPECT_EQ(phase_of_purpose("tensors_read: unable to allocate model buffer"), Phase::kLoad);
  EXPECT_EQ(phase_of_purpose("kv_cache_grow: no room"), std::nullopt);  // a name is where, not what
  EXPECT_EQ(phase_of_purpose("Operator matmul raises an rt::BadAlloc exception."), Phase::kForward);
  EXPECT_EQ(phase_of_purpose("Operator set_value raises an rt::BadAlloc exception."), Phase::kLoad);
  EXPECT_EQ(without_function("kv_cache_grow: no room"), "no room");
  EXPECT_EQ(without_function("RuntimeError: no room"), "RuntimeError: no room");
  const std::string refused =
      "pool_take: allocating 9100.00 MiB on device 1: cudaMalloc failed: out of memory\n"
      "pool_reserve: failed to allocate CUDA1 buffer of size 9542041600\n";
  EXPECT_EQ(first_of(refused + "kv_cache_update: failed to allocate compute buffers\n"), "activation-bound");
  EXPECT_EQ(first_of(refused + "tensors_read: unable to allocate model buffer\n"), "genuine-capacity");
  EXPECT_EQ(first_of("[E:rt] status 6 returned while running Gemm node. Failed to allocate memory for requested buffer "
                     "of size 8388608000 on CUDA\n"),
            "activation-bound");
}

TEST(Mechanisms, the_samples_of_a_step_are_read_where_they_are_said) {
  EXPECT_EQ(batch_in("python tune.py --batch_size 16 --lr 1e-4"), 16);
  EXPECT_EQ(batch_in("  batch size per device / Stapel: 2"), 2);
  EXPECT_EQ(batch_in("  Instantaneous batch size per device = 8"), 8);
  EXPECT_EQ(batch_in("    model.fit(x, y, batch_size=4, epochs=9)"), 4);
  EXPECT_EQ(batch_in("--train_batch_size=\"1\" --max_steps=10"), 1);
  EXPECT_EQ(batch_in("--per_device_eval_batch_size 8"), std::nullopt);
  EXPECT_EQ(batch_in("global batch size: 1024"), std::nullopt);
  EXPECT_EQ(batch_in("try a batch size of 1"), std::nullopt);
  EXPECT_EQ(batch_in("batch_size = args.batch, lr = 3"), std::nullopt);
  const auto run = [](const char* batch) {
    return std::string{"$ python tune.py --batch_size "} + batch +
           "\nRuntimeError: CUDA out of memory. Tried to allocate 60.00 MiB (GPU 0; 8.00 GiB total capacity; 6.70 GiB "
           "already allocated; 40.00 MiB free; 6.80 GiB reserved in total by PyTorch)\n";
  };
  EXPECT_EQ(first_of(run("32")), "activation-bound");
  EXPECT_EQ(first_of(run("1")), "genuine-capacity");
  EXPECT_FALSE(answer_for(run("1")).lists("micro-batch"));
}

TEST(Mechanisms, a_line_of_code_that_makes_a_tensor_of_others_computes) {
  EXPECT_EQ(
      first_of("Traceback (most recent call last):\n  File \"/w/match.py\", line 7, in assign\n"
               "    overlap = inter / (left[:, None] + right - inter)\nRuntimeError: CUDA error: out of memory\n"),
      "activation-bound");
  EXPECT_EQ(
      first_of("Traceback (most recent call last):\n  File \"/w/net.py\", line 7, in place\n"
               "    net = net.to(device)\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 "
               "MiB (GPU 0; 4.00 GiB total capacity; 3.60 GiB already allocated; 0 bytes free; 3.60 GiB reserved "
               "in total by PyTorch)\n"),
      "genuine-capacity");
}

TEST(Mechanisms, a_bus_error_alone_is_not_surely_memory) {
  const Answer alone = answer_for("tune.sh: line 4:  81 Bus error               (core dumped) python tune.py\n");
  EXPECT_EQ(alone.cause(), "host-ram-kill");
  EXPECT_LT(alone.diagnosis.confidence, 0.8);
  EXPECT_EQ(alone.second(), "not-memory");
  const Answer worker = answer_for("RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error.\n");
  EXPECT_EQ(worker.cause(), "host-ram-kill");
  EXPECT_GE(worker.diagnosis.confidence, 0.9);
  const Answer ranks = answer_for("world_size: 8\ntune.sh: line 4:  81 Bus error   (core dumped) python tune.py\n");
  EXPECT_GT(ranks.diagnosis.confidence, alone.diagnosis.confidence);
  EXPECT_LT(ranks.diagnosis.confidence, 0.8);
  const Answer beside = answer_for(
      "comm 3: Error while creating shared memory segment /dev/shm/nccl-a1 (size 9637888)\n"
      "tune.sh: line 4:  81 Bus error   (core dumped) python tune.py\n");
  EXPECT_EQ(beside.cause(), "host-ram-kill");
  EXPECT_GE(beside.diagnosis.confidence, 0.9);
  EXPECT_EQ(first_of("Fatal Python error: Bus error\n"), "host-ram-kill");
  EXPECT_EQ(first_of("  traceback : Signal 7 (SIGBUS) received by PID 9\n"), "host-ram-kill");
  EXPECT_EQ(first_of("step 3 loss 1.2\nstep 4 loss 1.1\nBus error: 10\n"), "not-memory");
}

TEST(Mechanisms, who_held_the_device_before_is_printed_at_the_start) {
  const auto start = [](const char* free) {
    return std::string{"Found device 0 with properties:\nTotal memory: 7.92GiB\nFree memory: "} + free +
           "\nE cuda_driver.cc:90] failed to allocate 180.00M (188743680 bytes) from device: "
           "CUDA_ERROR_OUT_OF_MEMORY\n";
  };
  EXPECT_EQ(first_of(start("190.31MiB")), "other-process");
  EXPECT_NE(first_of(start("7.80GiB")), "other-process");
}

TEST(Mechanisms, graphs_in_their_pools_are_those_of_an_engine_that_has_started) {
  EXPECT_EQ(
      first_of("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
               "of 79.10 GiB of which 1.10 GiB is free. Process 7 has 78.00 GiB memory in use. Of the allocated "
               "memory 76.00 GiB is allocated by PyTorch, with 60.00 MiB allocated in private pools (e.g., CUDA "
               "Graphs), and 500.00 MiB is reserved by PyTorch but unallocated.\n"),
      "serving-headroom");
}

TEST(Mechanisms, what_is_cached_a_little_is_seldom_the_reason) {
  const auto message = [](const char* allocated) {
    return std::string{
               "RuntimeError: CUDA out of memory. Tried to allocate 900.00 MiB (GPU 0; 24.00 GiB total capacity; "} +
           allocated + " GiB already allocated; 400.00 MiB free; 22.80 GiB reserved in total by PyTorch)\n";
  };
  EXPECT_EQ(first_of(message("16.00")), "fragmentation");
  EXPECT_NE(first_of(message("20.00")), "fragmentation");
  EXPECT_EQ(answer_for(message("20.00")).diagnosis.sum.defragmenting_could_serve, true);
  // Less than what a driver keeps back is not free.
  EXPECT_NE(first_of("Out of memory error on GPU 0. Cannot allocate 80.00MB memory on GPU 0, 10.60GB memory has been "
                     "allocated and available memory is only 108.00MB.\n"),
            "fragmentation");
}

TEST(Mechanisms, numbers_before_a_loss_count_steps_and_ranks_do_not) {
  EXPECT_EQ(parse_step("291144: boxes 77, recall 62, loss: x 1.47, total 125.8")->step, 291144);
  const std::string steps =
      "291112: boxes 77, loss: x 2.22\n291144: boxes 70, loss: x 1.47\n291176: boxes 75, loss: x 1.87\n"
      "291208: boxes 75, loss: x 1.82\n";
  const Answer answer = answer_for(steps +
                                   "Traceback (most recent call last):\n  File \"tune.py\", line 2, in train\n"
                                   "    loss.backward()\nRuntimeError: CUDA error: out of memory\n");
  EXPECT_FALSE(answer.findings->is_multi_rank());
  EXPECT_EQ(answer.diagnosis.root->steps_before, 4);
  EXPECT_EQ(parse_step("resuming from step 40"), std::nullopt);
}

TEST(Mechanisms, batches_that_are_evaluated_are_no_steps) {
  EXPECT_TRUE(counts_evaluation("Evaluation  [2060/5000]  eta: 0:02:28"));
  EXPECT_TRUE(counts_evaluation("Test: [ 10/196]  Time 0.061"));
  EXPECT_TRUE(counts_evaluation("validating: 3/40"));
  EXPECT_FALSE(counts_evaluation("Train: 72 [1400/5004 ( 28%)]"));
  EXPECT_FALSE(counts_evaluation("test/unit/3/4"));
  EXPECT_FALSE(counts_evaluation("Validation accuracy 3/4"));
  EXPECT_FALSE(counts_evaluation("values: 3/4"));
  const std::string steps = "Train: [ 10/200] loss 1.1\nTrain: [ 20/200] loss 1.0\n";
  EXPECT_EQ(first_of(steps + "Test: [ 1/50] loss 1.4\nTest: [ 2/50] loss 1.3\nRuntimeError: CUDA out of memory.\n"),
            "eval-accumulation");
}

TEST(Mechanisms, hardly_a_weight_has_a_gibibyte) {
  EXPECT_EQ(first_of("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"), "activation-bound");
  EXPECT_EQ(first_of("RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\n"), "genuine-capacity");
  EXPECT_EQ(first_of("Out of memory error on GPU 0. Cannot allocate 3.5GB memory on GPU 0, available memory is only "
                     "117.75MB.\n"),
            "activation-bound");
  // Who asks for a whole file at once asks for weights too.
  EXPECT_EQ(first_of("pool_take: allocating 9100.00 MiB on device 1: cudaMalloc failed: out of memory\n"),
            "genuine-capacity");
}

TEST(Mechanisms, who_holds_and_asks_for_little_did_not_fill_the_device) {
  const auto message = [](const char* held, const char* asked) {
    return std::string{"RuntimeError: XPU out of memory. Tried to allocate "} + asked +
           " (GPU 0; 15.56 GiB total capacity; " + held + " already allocated; " + held +
           " reserved in total by PyTorch)\n";
  };
  EXPECT_EQ(first_of(message("990.00 MiB", "1.00 GiB")), "other-process");
  EXPECT_NE(first_of(message("13.90 GiB", "1.00 GiB")), "other-process");
  EXPECT_NE(first_of(message("6.90 GiB", "3.00 GiB")), "other-process");
}

TEST(Mechanisms, a_block_of_four_gibibytes_is_refused_on_an_empty_device) {
  const auto message = [](const char* asked) {
    return std::string{"torch.OutOfMemoryError: XPU out of memory. Tried to allocate "} + asked +
           ". GPU 0 has a total capacity of 15.11 GiB. Of the allocated memory 0 bytes is allocated by PyTorch, and 0 "
           "bytes is reserved by PyTorch but unallocated.\n";
  };
  EXPECT_EQ(first_of(message("4.00 GiB")), "driver-allocation-limit");
  EXPECT_NE(first_of(message("3.50 GiB")), "driver-allocation-limit");
}

TEST(Mechanisms, a_request_beyond_the_device_is_no_weight_even_where_the_driver_swaps) {
  const auto message = [](const char* asked) {
    return std::string{"RuntimeError: CUDA out of memory. Tried to allocate "} + asked +
           " (GPU 0; 8.00 GiB total capacity; 17.20 GiB already allocated; 0 bytes free; 19.15 GiB reserved in total "
           "by PyTorch)\n";
  };
  EXPECT_EQ(first_of(message("10.73 GiB")), "activation-bound");
  EXPECT_EQ(first_of(message("20.00 MiB")), "genuine-capacity");
}

TEST(Mechanisms, an_allocator_that_lists_what_it_holds_has_given_up) {
  const std::string steps = "global step 915: loss = 4.2\nglobal step 916: loss = 4.1\nglobal step 917: loss = 4.3\n";
  const std::string wants = "W core/bfc_allocator.cc:273] Allocator (GPU_0_bfc) ran out of memory trying to allocate ";
  EXPECT_NE(first_of(steps + wants + "4.42GiB.  Current allocation summary follows.\n"), "clean");
  EXPECT_EQ(first_of(steps + wants +
                     "4.42GiB. The caller indicates that this is not a failure, but may mean that there "
                     "could be performance gains if more memory were available.\n"),
            "clean");
}

TEST(Mechanisms, what_says_that_something_failed_is_no_line_of_code) {
  const std::string flat = "Traceback (most recent call last):\nFile \"/w/fit.py\", line 3, in step\n";
  EXPECT_EQ(first_of(flat + "self.optimizer.step()\nRuntimeError: CUDA out of memory.\n"), "optimizer-state-bound");
  EXPECT_EQ(first_of(flat + "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total capacity; 7.20 GiB "
                            "already allocated; 0 bytes free; 7.30 GiB reserved in total by PyTorch)\n"),
            "genuine-capacity");
}

TEST(Mechanisms, a_function_that_is_named_for_a_loss_computes) {
  const auto in = [](const char* function) {
    return std::string{
               "Traceback (most recent call last):\n  File \"/w/loops.py\", line 279, in run\n    self.once(data)\n"
               "  File \"/w/head.py\", line 88, in "} +
           function + "\ntorch.cuda.OutOfMemoryError: CUDA out of memory.\n";
  };
  EXPECT_EQ(answer_for(in("mask_loss_by_level")).diagnosis.phase, Phase::kForward);
  EXPECT_NE(answer_for(in("log_losses")).diagnosis.phase, Phase::kForward);
}

TEST(Mechanisms, a_limit_that_is_far_away_was_not_reached) {
  const auto message = [](const char* held, const char* beside, const char* asked) {
    return std::string{"RuntimeError: MPS backend out of memory (MPS allocated: "} + held +
           ", other allocations: " + beside + ", max allowed: 18.13 GB). Tried to allocate " + asked +
           " on private pool.\n";
  };
  EXPECT_EQ(first_of(message("11.14 GB", "6.65 GB", "375.40 MB")), "unified-memory-limit");
  EXPECT_EQ(first_of(message("0 bytes", "0 bytes", "256 bytes")), "not-memory");
  EXPECT_EQ(first_of(message("1.00 GB", "1.00 GB", "16.50 GB")), "unified-memory-limit");
}

TEST(Mechanisms, a_launcher_that_ends_the_others_has_several) {
  const Answer answer = answer_for(
      "W0629 00:06:21.246000 77 torch/distributed/elastic/multiprocessing/api.py:851] Sending process 29734 closing "
      "signal SIGTERM\nE0629 00:06:24.298000 77 torch/distributed/elastic/multiprocessing/api.py:826] failed "
      "(exitcode: "
      "-9) local_rank: 0 (pid: 29736) of binary: /w/python\n");
  EXPECT_TRUE(answer.findings->is_multi_rank());
}

TEST(Mechanisms, a_sentence_may_begin_with_the_shortage_and_name_its_owner_between) {
  EXPECT_EQ(first_of("INFO: 200 OK\nPrefill out of memory. Lower the number of requests.\n"), "kv-cache-too-small");
  EXPECT_EQ(first_of("lightlib.basic.LightError: Out of Host Memory\n"), "host-ram-kill");
  EXPECT_EQ(answer_for("vk: Device memory allocation of size 1610612736 failed.\n").diagnosis.resource,
            Resource::kDevice);
  EXPECT_EQ(answer_for("ERROR: Detected OutOfMemoryError! Enabling recomputation\n").diagnosis.resource,
            Resource::kDevice);
}

TEST(Mechanisms, causes_that_are_taken_for_each_other_are_never_called_sure) {
  for (const Cause cause : {Cause::kGenuineCapacity, Cause::kActivationBound, Cause::kCublasCudnnAlloc})
    EXPECT_LT(stated(0.97, cause), 0.8) << cause_name(cause);
  EXPECT_GE(stated(0.97, Cause::kDiskFull), 0.9);
}

TEST(Mechanisms, a_number_of_the_runtime_and_a_line_below_its_exception_are_read) {
  const std::string trace =
      "Traceback (most recent call last):\n  File \"/w/sparse.py\", line 9, in forward\n"
      "    pairs = layer(points)\nRuntimeError: kernels/pairs.cu 51\n";
  const Answer numbered = answer_for(trace + "cuda launch failed with error 2\n");
  EXPECT_EQ(numbered.cause(), "activation-bound");  // the frames are those of the exception above
  EXPECT_EQ(first_of(trace + "cuda launch failed with error 209\n"), "not-memory");
  EXPECT_EQ(first_of(trace + "make: target ended with error 2\n"), "not-memory");
  EXPECT_EQ(batch_in("The batch size is 12"), 12);
}

TEST(Mechanisms, little_refused_beside_much_that_is_free_is_not_in_pieces) {
  const auto refused = [](const char* held) {
    return std::string{
               "RuntimeError: CUDA out of memory. Tried to allocate 24.00 MiB (GPU 0; 6.00 GiB total capacity; "} +
           held + " already allocated; 4.90 GiB free; " + held + " reserved in total by PyTorch)\n";
  };
  EXPECT_EQ(first_of(refused("4.00 MiB")), "other-process");
  EXPECT_EQ(first_of(refused("800.00 MiB")), "fragmentation");
}

TEST(Mechanisms, a_weight_widened_for_one_product_is_no_second_copy) {
  const std::string text =
      "Traceback (most recent call last):\n  File \"/site-packages/vllm/layers/linear.py\", line 40, in forward\n"
      "    out = self.method.apply(self, x)\n  File \"/site-packages/vllm/ops.py\", line 8, in four_bit_dequantize\n"
      "    return kernels.widen(packed, scales)\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate "
      "300.00 MiB.\n";
  EXPECT_EQ(first_of(text), "serving-headroom");
}

}  // namespace
}  // namespace plimsoll::why
