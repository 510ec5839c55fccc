// SPDX-License-Identifier: Apache-2.0
// Facts that decide although no sentence says them: a reason on the line before, a record's denial, an account that
// comes out below nothing, the head of a traceback whose end is missing, the bar that was being drawn.
#include <gtest/gtest.h>

#include "why/next_evidence.h"
#include "why/progress.h"
#include "why/support.h"

namespace plimsoll::why {
namespace {

std::string first_of(const std::string& text) {
  const Answer answer = answer_for(text);
  return answer.diagnosis.failure ? answer.cause() : "clean";
}

TEST(Facts, a_reason_of_the_system_on_the_line_before_is_heeded) {
  const std::string complaint =
      "n4:88:91 [2] misc/shm.cc:70 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a (size "
      "9637888)\n";
  EXPECT_EQ(first_of(complaint), "host-ram-kill");
  for (const char* reason : {"Permission denied", "Operation not permitted", "Read-only file system"}) {
    const std::string call =
        std::string{"n4:88:91 [2] misc/shm.cc:40 NCCL WARN Call to open failed : "} + reason + "\n";
    EXPECT_EQ(first_of(call + complaint), "not-memory") << reason;
  }
  const std::string full =
      "n4:88:91 [2] misc/shm.cc:40 NCCL WARN Call to posix_fallocate failed : No space left on device\n";
  EXPECT_EQ(first_of(full + complaint), "host-ram-kill");
  // A library that was looked for and not found has nothing to do with it.
  const std::string plugin =
      "n4:88:91 [2] NCCL INFO NET/Plugin: load failed: libnccl-net.so: cannot open shared object file: No such file or "
      "directory\n";
  EXPECT_EQ(first_of(plugin + complaint), "host-ram-kill");
}

TEST(Facts, a_containers_record_may_deny_that_memory_was_the_reason) {
  const auto record = [](const char* killed) {
    return std::string{"\"State\": {\n  \"Status\": \"exited\",\n  \"OOMKilled\": "} + killed +
           ",\n  \"ExitCode\": 137\n}\n";
  };
  EXPECT_EQ(first_of(record("true")), "host-ram-kill");
  EXPECT_EQ(first_of(record("false")), "unknown");
  const auto pod = [](const char* reason) {
    return std::string{"    Last State:     Terminated\n      Reason:       "} + reason + "\n      Exit Code:    137\n";
  };
  EXPECT_EQ(first_of(pod("OOMKilled")), "host-ram-kill");
  EXPECT_EQ(first_of(pod("Error")), "unknown");
}

// A shell's child is killed by the kernel; a container by whoever runs it.
TEST(Facts, a_container_that_was_killed_is_less_sure_to_have_run_out_of_memory) {
  const Answer shell = answer_for("run.sh: line 9:  81 Killed   python tune.py\n");
  const Answer container = answer_for("command terminated with exit code 137\n");
  EXPECT_EQ(shell.cause(), "host-ram-kill");
  EXPECT_GE(shell.diagnosis.confidence, 0.7);
  EXPECT_EQ(container.cause(), "host-ram-kill");
  EXPECT_LT(container.diagnosis.confidence, shell.diagnosis.confidence - 0.05);
}

TEST(Facts, a_daemon_that_kills_before_the_kernel_has_to_says_so) {
  EXPECT_EQ(first_of("freemem: low memory: 2 % left, sending SIGKILL to 4711 (python3)\n"), "host-ram-kill");
  EXPECT_EQ(first_of("guard[9]: sending SIGTERM to process 77 \"train\": oom_score 1290, VmRSS 61000 MiB\n"),
            "host-ram-kill");
  EXPECT_EQ(first_of("launcher: sending SIGTERM to the remaining workers\n"), "clean");
}

TEST(Facts, an_engines_account_below_nothing_is_a_failure) {
  EXPECT_EQ(first_of("INFO weights take 9.10GiB; what is left for the KV cache is -2.31GiB.\n"), "kv-cache-too-small");
  EXPECT_EQ(first_of("INFO weights take 9.10GiB; what is left for the KV cache is 2.31GiB.\n"), "clean");
}

TEST(Facts, a_pool_whose_size_is_an_option_of_the_engine_is_its_budget) {
  EXPECT_EQ(first_of("RuntimeError: slot table runs out of memory, lower --max-running-requests. free=0, wanted=3\n"),
            "kv-cache-too-small");
  const std::string device =
      "torch.OutOfMemoryError: CUDA out of memory while warming up. Please try lowering `max_num_seqs`.\n";
  EXPECT_NE(first_of(device), "kv-cache-too-small");
}

TEST(Facts, the_head_of_a_notebooks_traceback_names_the_exception) {
  const auto notebook = [](const char* type) {
    return std::string{type} + "                          Traceback (most recent call last)\nCell In[4], line 1\n" +
           "----> 1 trainer.evaluate()\n\nFile ~/lib/transformers/trainer.py:4100, in Trainer.evaluate(self)\n" +
           "   4099 start = time.time()\n-> 4100 output = eval_loop(\n";
  };
  EXPECT_EQ(first_of(notebook("OutOfMemoryError")), "eval-accumulation");
  EXPECT_EQ(first_of(notebook("KeyError")), "not-memory");
}

TEST(Facts, a_log_that_ends_with_a_traceback_has_failed) {
  const std::string bar = " 44%|####4     | 1322/3000 [11:55:49<13:00:05, 27.89s/it]";
  EXPECT_EQ(first_of(bar + "Traceback (most recent call last):\n"), "unknown");
  // One that was logged long before and left behind has not.
  std::string on = "Traceback (most recent call last):\n";
  for (int i = 1; i < 40; ++i) on += "step " + std::to_string(i) + " loss 2.5\n";
  EXPECT_EQ(first_of(on), "clean");
}

TEST(Facts, the_bar_that_was_being_drawn_says_what_the_run_did) {
  const std::string trained = "Train:   3%|#         | 600/22156 [3:14:25<82:43:44, 13.82s/it]\n";
  const std::string failure =
      "Traceback (most recent call last):\n  File \"run.py\", line 5, in <module>\n    main()\ntorch.OutOfMemoryError: "
      "CUDA out of memory.\n";
  EXPECT_EQ(first_of(trained + "Val:  21%|##        | 90/428 [01:53<04:33,  1.24it/s]\n" + failure),
            "eval-accumulation");
  EXPECT_NE(first_of(trained + "Interval:  21%|##        | 90/428 [01:53<04:33,  1.24it/s]\n" + failure),
            "eval-accumulation");
}

TEST(Facts, the_compilers_list_is_printed_only_where_a_program_does_not_fit) {
  const auto list = [](const char* plain) {
    return std::string{"Program hbm requirement 9.50G:\n    HLO temp          9.50G (utilization: Unpadded ("} + plain +
           ") Padded (9.50G))\n\n  Largest program allocations in hbm:\n\n  1. Size: 8.00G\n";
  };
  EXPECT_EQ(first_of(list("200.00M")), "xla-padding");
  EXPECT_NE(first_of(list("9.40G")), "xla-padding");
  EXPECT_NE(first_of(list("9.40G")), "clean");
}

TEST(Facts, the_best_checkpoint_is_loaded_after_training) {
  const std::string text =
      "Traceback (most recent call last):\n  File \"/w/trainer.py\", line 9, in train\n    self._load_best_model()\n"
      "  File \"/w/serialization.py\", line 7, in load\n    return _load(opened)\nRuntimeError: CUDA out of memory.\n";
  EXPECT_EQ(first_of(text), "checkpoint-spike");
}

TEST(Facts, an_echo_that_quotes_its_cause_is_more_than_an_echo) {
  const std::string dead = "EngineDeadError: the loop is not running, see the original error";
  EXPECT_EQ(first_of(dead + "\n"), "unknown");
  const std::string quoted =
      ": OutOfMemoryError('CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of 79.33 GiB "
      "of which 16.00 MiB is free.')\n";
  EXPECT_EQ(answer_for(dead + quoted).diagnosis.resource, Resource::kDevice);
}

TEST(Facts, a_message_that_denies_to_be_a_failure_is_none) {
  EXPECT_EQ(first_of("W alloc.cc:217] Allocator (GPU_0) ran out of memory trying to allocate 84.60MiB. The caller "
                     "indicates that this is not a failure, but may mean less speed.\n"),
            "clean");
}

TEST(Facts, a_bare_sentence_about_shapes_is_an_ordinary_failure) {
  EXPECT_EQ(first_of("size mismatch for embed.weight: (1024, 768) in the file, (512, 768) in the model\n"),
            "not-memory");
}

TEST(Facts, the_semaphores_of_processes_lie_in_shared_memory) {
  const auto lock = [](const char* code) {
    return std::string{
               "Traceback (most recent call last):\n  File \"/lib/python3.12/multiprocessing/queues.py\", line 43, in "
               "__init__\n    "} +
           code + "\nOSError: [Errno 28] No space left on device\n";
  };
  EXPECT_EQ(first_of(lock("self._rlock = ctx.Lock()")), "host-ram-kill");
  EXPECT_EQ(first_of(lock("self._file.write(data)")), "disk-full");
}

TEST(Facts, whoever_makes_the_optimizer_makes_its_states) {
  const auto init = [](const char* call) {
    return std::string{
               "Traceback (most recent call last):\n  File \"/w/engine.py\", line 10, in start\n    self.optimizer = "
               "self."} +
           call + "(basic)\nRuntimeError: CUDA out of memory.\n";
  };
  EXPECT_EQ(first_of(init("_configure_zero_optimizer")), "optimizer-state-bound");
  EXPECT_NE(first_of(init("_load_optimizer_module")), "optimizer-state-bound");
}

TEST(Facts, steps_of_an_epoch_are_counted_whoever_writes_them) {
  EXPECT_EQ(parse_step("Epoch  3,  6300/ 8866; acc:  33.21; ppl:  67.80; 5115 tgt tok/s")->step, 6300);
  EXPECT_EQ(parse_step("Epoch [2][50/29317]\tlr: 1.9e-03, loss: 1.3793")->step, 50);
  EXPECT_FALSE(parse_step("Epoch 3/300 loss 1.3")->step);
}

TEST(Facts, a_job_that_is_known_is_not_asked_for) {
  Diagnosis ranking;
  ranking.failure = true;
  ranking.confidence = 0.6;
  for (const Cause second : {Cause::kActivationBound, Cause::kModelLoadSpike}) {
    ranking.cause = Cause::kGenuineCapacity;
    ranking.candidates = {{Cause::kGenuineCapacity, 2, 0.6, "", ""}, {second, 1, 0.3, "", ""}};
    EXPECT_NE(next_evidence(ranking)->command.find("--job"), std::string::npos);
    EXPECT_EQ(next_evidence(ranking, true)->command.find("--job"), std::string::npos);
  }
}

// A frame of C++ that names neither an exception nor its words is no reason beside a watchdog that names its own.
TEST(Facts, what_was_raised_without_words_says_less_than_any_other_line) {
  const Answer answer = answer_for(
      "terminate called after throwing an instance of 'c10::DistBackendError'\n"
      "  what():  [PG 1 Rank 2] watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=BROADCAST)\n"
      "Exception raised from checkTimeout at group.cpp:60 (most recent call first):\n");
  EXPECT_EQ(answer.cause(), "not-memory");
}

// A limit that is a share of the system's memory may be passed by what is already held.
TEST(Facts, more_than_a_share_of_the_systems_memory_is_still_that_share) {
  const Answer answer = answer_for(
      "RuntimeError: MPS backend out of memory (MPS allocated: 12.10 GiB, other allocations: 1.00 MiB, max allowed: "
      "12.00 GiB). Tried to allocate 512 bytes on shared pool.\n");
  EXPECT_EQ(answer.cause(), "unified-memory-limit");
}

// XLA states what it looked at: less than is free, and refused, is not free in one piece.
TEST(Facts, a_compiler_that_cannot_place_less_than_is_free_has_it_in_pieces) {
  const char* form =
      "RESOURCE_EXHAUSTED: Attempting to reserve {} at the bottom of memory. That was not possible. There are 5.20G "
      "free, 0B reserved, and 2.10G reservable.\n";
  std::string fits = form;
  std::string too_large = form;
  fits.replace(fits.find("{}"), 2, "5.00G");
  too_large.replace(too_large.find("{}"), 2, "7.00G");
  EXPECT_EQ(answer_for(fits).cause(), "fragmentation");
  EXPECT_NE(answer_for(too_large).cause(), "fragmentation");
}

// A thousand steps before a message without figures: weights, states and ordinary batches fit.
TEST(Facts, a_bare_message_after_many_steps_is_about_its_batch) {
  std::string log;
  for (int step = 4001; step < 4006; ++step) log += "step " + std::to_string(step) + " loss 2.1\n";
  log += "RuntimeError: CUDA out of memory.\n";
  const Answer late = answer_for(log);
  EXPECT_EQ(late.cause(), "longest-batch");
  EXPECT_LT(late.diagnosis.confidence, 0.8);
  EXPECT_NE(answer_for("RuntimeError: CUDA out of memory.\n").cause(), "longest-batch");
}

TEST(Facts, what_is_read_to_resume_holds_the_optimizer_too) {
  const auto with = [](const std::string& code) {
    return answer_for("Traceback (most recent call last):\n  File \"tune.py\", line 9, in main\n    " + code +
                      "\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.\n")
        .cause();
  };
  EXPECT_EQ(with("state = torch.load(args.resume)"), "checkpoint-spike");
  EXPECT_EQ(with("state = torch.load(weights)"), "model-load-spike");
  EXPECT_EQ(with("model = model.merge_and_unload()"), "model-load-spike");
}

TEST(Facts, a_job_whose_command_failed_has_failed) {
  EXPECT_EQ(first_of("step 1 loss 2.5\nStatus message: Job entrypoint command failed with exit code 1\n"), "unknown");
  EXPECT_EQ(first_of("step 1 loss 2.5\nStatus message: Job entrypoint command ended with exit code 0\n"), "clean");
}

}  // namespace
}  // namespace plimsoll::why
