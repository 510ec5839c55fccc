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
  EXPECT_LT(answer_for("step web: Exited with code 137\n").diagnosis.confidence,
            answer_for("run.sh: line 3:  77 Killed   python tune.py\n").diagnosis.confidence);
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

// Evaluation has no backward pass, whatever the function around it is called.
TEST(Unseen, what_has_a_backward_pass_is_no_evaluation) {
  const Answer answer = answer_for(
      "Traceback (most recent call last):\n"
      "  File \"/w/tools/train.py\", line 271, in run\n    evaluate_and_learn(rank, epoch)\n"
      "  File \"/w/tools/train.py\", line 499, in evaluate_and_learn\n    scaler.scale(loss).backward()\n"
      "  File \"/p/torch/autograd/__init__.py\", line 200, in backward\n    run_backward(\n"
      "RuntimeError: CUDA out of memory. Tried to allocate 96.00 MiB (GPU 0; 10.76 GiB total capacity; 9.41 GiB "
      "already "
      "allocated; 44.56 MiB free; 9.70 GiB reserved in total by PyTorch)\n");
  EXPECT_NE(answer.cause(), "eval-accumulation");
}

// What was read may still lie on the device when the first step runs.
TEST(Unseen, the_first_step_after_a_restored_state_may_hold_it_twice) {
  const Answer answer = answer_for(
      "Resuming training from runs/7\nTraceback (most recent call last):\n"
      "  File \"/w/model.py\", line 101, in forward\n    x = x + self.mlp(self.ln_2(x))\n"
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total capacity; "
      "7.20 "
      "GiB already allocated; 0 bytes free; 7.30 GiB reserved in total by PyTorch)\n");
  EXPECT_TRUE(answer.cause() == "checkpoint-spike" || answer.second() == "checkpoint-spike") << answer.second();
}

TEST(Unseen, a_request_of_a_third_of_the_device_is_not_surely_fragmentation) {
  const Answer answer = answer_for(
      "RuntimeError: CUDA out of memory. Tried to allocate 4.00 GiB (GPU 0; 10.73 GiB total capacity; 4.41 GiB already "
      "allocated; 1.75 GiB free; 3.78 GiB cached)\n");
  EXPECT_LT(answer.diagnosis.confidence, 0.8);
}

TEST(Unseen, no_host_has_room_for_an_array_of_terabytes) {
  EXPECT_EQ(answer_for("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 58.0 GiB for an array with shape "
                       "(176351, 176460) and data type uint16\n")
                .cause(),
            "host-ram-kill");
  EXPECT_EQ(answer_for("numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.10 TiB for an array with shape "
                       "(124994103978,) and data type float64\n")
                .cause(),
            "not-memory");
}

// XLA counts weights and inputs as parameters.
TEST(Unseen, a_program_of_temporaries_is_one_of_activations) {
  const auto program = [](const char* temporaries, const char* total) {
    return answer_for(
               std::string{"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying "
                           "to allocate 24897191936 bytes.\nBufferAssignment stats:\n"
                           "             parameter allocation:    9.02GiB\n"
                           "     preallocated temp allocation:   "} +
               temporaries + "\n                 total allocation:   " + total + "\n")
        .cause();
  };
  EXPECT_EQ(program("43.19GiB", "54.21GiB"), "activation-bound");
  EXPECT_EQ(program("4.19GiB", "24.21GiB"), "genuine-capacity");
}

// A library that had not served anything may not suit the driver; in backward it had served forward.
TEST(Unseen, a_library_that_cannot_start_says_little_about_memory) {
  const std::string error =
      "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n";
  const std::string frames =
      "Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in forward\n    return F.linear(x, w)\n";
  EXPECT_EQ(answer_for(frames + error).cause(), "not-memory");
  EXPECT_EQ(answer_for(frames + error).second(), "cublas-cudnn-alloc");
  EXPECT_EQ(answer_for("step 7 loss 2.1\nstep 8 loss 2.0\nstep 9 loss 2.0\n" + frames + error).cause(),
            "cublas-cudnn-alloc");
}

TEST(Unseen, what_is_loaded_stands_a_few_words_after_the_word) {
  EXPECT_EQ(phase_of_marker("Loading a checkpoint (shards=8, current-mp-size=1)"), Phase::kLoad);
  EXPECT_EQ(phase_of_marker("loading 30 safetensors files"), Phase::kLoad);
  EXPECT_EQ(phase_of_marker("Loading data for the model"), Phase::kUnknown);
  EXPECT_EQ(phase_of_marker("Loading extension module cpu_adam..."), Phase::kUnknown);
}

// A setting that is off announces nothing.
TEST(Unseen, what_is_set_to_false_does_not_happen) {
  EXPECT_EQ(phase_of_marker("  Resuming from checkpoint: False"), Phase::kUnknown);
  EXPECT_EQ(phase_of_marker("Resuming from checkpoint runs/7"), Phase::kResume);
}

// After steps that were done the next batch is likelier too long than the weights are too large.
TEST(Unseen, steps_that_were_done_leave_the_batch) {
  std::string steps;
  for (int i = 0; i < 5; ++i) steps += "{'loss': 2.9, 'grad_norm': 5.3, 'learning_rate': 3e-05, 'epoch': 0.0}\n";
  const Answer answer = answer_for(
      steps +
      "Traceback (most recent call last):\n  File \"/w/m.py\", line 62, in forward\n    logits = self.encode(pair)\n"
      "torch.cuda.OutOfMemoryError: CUDA out of memory.\n");
  EXPECT_EQ(answer.cause(), "activation-bound");
  EXPECT_EQ(answer.second(), "longest-batch");
}

// A line every twenty steps: two of them are twenty steps.
TEST(Unseen, the_number_of_a_step_counts_those_between_two_lines) {
  const Answer answer = answer_for(
      "Epoch: [1][0/5000], Time: 2.31, Loss: 5.012\nEpoch: [1][20/5000], Time: 1.22, Loss: 4.120\n"
      "RuntimeError: CUDA out of memory. Tried to allocate 4.46 GiB (GPU 0; 7.93 GiB total capacity; 4.72 GiB already "
      "allocated; 1.41 GiB free; 1.01 GiB cached)\n");
  EXPECT_EQ(answer.cause(), "longest-batch");
}

// The compiler's sum does not say what it is a sum of; its list does.
TEST(Unseen, a_program_that_exceeds_the_device_is_not_surely_its_weights) {
  const std::string sum =
      "XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 63.80G of 30.75G hbm. Exceeded "
      "hbm capacity by 33.05G.\n";
  EXPECT_LT(answer_for(sum).diagnosis.confidence, 0.8);
  EXPECT_EQ(
      answer_for(sum + "Program hbm requirement 63.80G:\n    HLO temp         63.79G (100.0% utilization)\n").cause(),
      "activation-bound");
}

TEST(Unseen, the_file_of_an_optimizer_makes_its_states) {
  EXPECT_EQ(answer_for("Traceback (most recent call last):\n"
                       "  File \"/w/train.py\", line 184, in train\n    strategy.prepare((model, opt))\n"
                       "  File \"/p/zero/low_level_optim.py\", line 131, in __init__\n    master = flat.float()\n"
                       "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 25.10 GiB (GPU 0; 31.75 GiB "
                       "total capacity; 12.60 GiB already allocated; 18.30 GiB free; 12.61 GiB reserved in total by "
                       "PyTorch)\n")
                .cause(),
            "optimizer-state-bound");
}

// Lightning hands the step to the optimizer as a closure.
TEST(Unseen, what_an_optimizer_calls_back_is_not_its_own_step) {
  const std::string outside =
      "Epoch 0:   6%|##        | 320/5001 [06:28<94:39,  1.37it/s, loss=2.6]\nTraceback (most recent call last):\n"
      "  File \"/p/pytorch_lightning/loops/optimization/automatic.py\", line 188, in run\n"
      "    self._optimizer_step(batch_idx, closure)\n"
      "  File \"/p/pytorch_lightning/core/module.py\", line 1303, in optimizer_step\n"
      "    optimizer.step(closure=optimizer_closure)\n"
      "  File \"/p/pytorch_lightning/core/optimizer.py\", line 153, in step\n"
      "    step_output = self._strategy.optimizer_step(self._optimizer, closure, **kwargs)\n"
      "  File \"/p/torch/optim/adamw.py\", line 165, in step\n";
  const std::string inside =
      "    loss = closure()\n"
      "  File \"/p/pytorch_lightning/loops/optimization/automatic.py\", line 126, in closure\n"
      "    step_output = self._step_fn()\n";
  const std::string message =
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 23.69 GiB total capacity; "
      "20.10 GiB already allocated; 1.20 GiB free; 20.41 GiB reserved in total by PyTorch)\n";
  const auto phase = [&](const std::string& text) { return answer_for(text).diagnosis.phase; };
  EXPECT_EQ(phase(outside + inside + "  File \"/w/net.py\", line 12, in forward\n    h = self.attn(h)\n" + message),
            Phase::kForward);
  EXPECT_EQ(
      phase(outside + inside + "  File \"/p/torch/_tensor.py\", line 487, in backward\n    run_backward(\n" + message),
      Phase::kBackward);
  EXPECT_EQ(phase(outside + "    adamw(params, grads, exp_avgs)\n" + message), Phase::kOptimizerStep);
}

// A schedule runs both passes; the frames inside of it say which.
TEST(Unseen, a_function_that_runs_both_passes_is_neither) {
  const auto phase = [](std::string_view outer, std::string_view inner) {
    std::string text = "Traceback (most recent call last):\n  File \"/w/schedules.py\", line 470, in ";
    text += outer;
    text += "\n    result = run(\n  File \"/w/mlp.py\", line 90, in ";
    text += inner;
    text += "\n    y = x * w\ntorch.OutOfMemoryError: CUDA out of memory.\n";
    return answer_for(text).diagnosis.phase;
  };
  EXPECT_EQ(phase("forward_backward_no_pipelining", "forward"), Phase::kForward);
  EXPECT_EQ(phase("training_step_and_backward", "forward"), Phase::kForward);
  EXPECT_EQ(phase("forward_backward_no_pipelining", "backward_step"), Phase::kBackward);
}

TEST(Unseen, a_sanity_check_is_the_first_forward_pass) {
  const Answer answer = answer_for(
      "Traceback (most recent call last):\n"
      "  File \"/p/trainer.py\", line 1060, in _run_sanity_check\n    val_loop.run()\n"
      "  File \"/p/evaluation_loop.py\", line 396, in _evaluation_step\n    output = call(hook, *args)\n"
      "  File \"/w/net.py\", line 12, in forward\n    h = self.attn(h)\n"
      "torch.OutOfMemoryError: CUDA out of memory.\n");
  EXPECT_EQ(answer.diagnosis.phase, Phase::kForward);
}

TEST(Unseen, gradients_are_clipped_before_the_optimizer) {
  EXPECT_NE(answer_for("Traceback (most recent call last):\n"
                       "  File \"/w/train.py\", line 211, in train\n    clip_grad_norm_(model.parameters(), 1.0)\n"
                       "  File \"/p/torch/nn/utils/clip_grad.py\", line 55, in clip_grad_norm_\n"
                       "    norms.extend(torch._foreach_norm(grads, norm_type))\n"
                       "torch.OutOfMemoryError: CUDA out of memory.\n")
                .cause(),
            "optimizer-state-bound");
}

// A traceback ends where the runtime was asked, often one call above the layer that asked.
TEST(Unseen, what_the_last_frame_calls_says_the_pass) {
  EXPECT_EQ(answer_for("Traceback (most recent call last):\n"
                       "  File \"/w/dp_actor.py\", line 240, in compute_log_prob\n"
                       "    entropy, log_probs = self._forward_micro_batch(micro_batch, temperature=temperature)\n"
                       "torch.OutOfMemoryError: CUDA out of memory.\n")
                .diagnosis.phase,
            Phase::kForward);
}

TEST(Unseen, weights_that_are_converted_while_they_are_read_count_once) {
  const Answer answer = answer_for(
      "Traceback (most recent call last):\n"
      "  File \"/p/modeling_utils.py\", line 4300, in from_pretrained\n    ) = cls._load_pretrained_model(\n"
      "  File \"/p/bitsandbytes/functional.py\", line 1300, in quantize_4bit\n    out = torch.zeros(shape)\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB (GPU 0; 23.69 GiB total capacity; "
      "22.90 "
      "GiB already allocated; 64.00 MiB free; 22.95 GiB reserved in total by PyTorch)\n");
  EXPECT_LT(answer.diagnosis.confidence, 0.8);
}

// The words of the asynchronous allocator speak of what would be; what is raised has happened.
TEST(Unseen, an_error_that_is_raised_as_out_of_memory_is_one) {
  const std::string head =
      "torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\n";
  EXPECT_EQ(resource_word(answer_for(head)), "device");
  const Answer answer = answer_for(head +
                                   "Currently allocated     : 22.50 GiB\nRequested               : 64.00 MiB\n"
                                   "Device limit            : 23.99 GiB\nFree (according to CUDA): 0 bytes\n");
  ASSERT_TRUE(answer.diagnosis.numbers.request && answer.diagnosis.numbers.total);
  EXPECT_EQ(*answer.diagnosis.numbers.request, std::int64_t{64} << 20);
  EXPECT_NEAR(static_cast<double>(*answer.diagnosis.numbers.total), 23.99 * (1 << 30), 1e6);
}

TEST(Unseen, a_shell_names_itself_before_what_it_reports) {
  EXPECT_EQ(answer_for("zsh: killed     python train.py\n").cause(), "host-ram-kill");
  EXPECT_FALSE(answer_for("zsh: correct 'pyhton' to 'python' [nyae]?\n").diagnosis.failure);
}

TEST(Unseen, a_heap_that_was_written_over_is_no_shortage) {
  for (const char* text : {"free(): invalid pointer", "double free or corruption (!prev)",
                           "malloc(): corrupted top size", "python: malloc(): unaligned tcache chunk detected",
                           "munmap_chunk(): invalid pointer", "*** stack smashing detected ***: terminated"})
    EXPECT_EQ(answer_for(std::string{"step 7 loss 2.1\n"} + text + "\n").cause(), "not-memory") << text;
}

}  // namespace
}  // namespace plimsoll::why
