// SPDX-License-Identifier: Apache-2.0
// Exceptions and tracebacks that another program quotes on one line, and what names of functions say about batches,
// models that are imported, and programs that are given too much.
#include <gtest/gtest.h>

#include "why/support.h"

namespace plimsoll::why {
namespace {

constexpr const char* kLoader =
    R"(Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n)"
    R"(  File "/p/torch/utils/data/_utils/worker.py", line 308, in _worker_loop\n    data = fetcher.fetch(index)\n)";

TEST(Quoted, an_exception_as_python_prints_it_is_one) {
  EXPECT_EQ(answer_for("Run 7 errored: ValueError('too many values to unpack')\n").cause(), "not-memory");
  const Answer host = answer_for("Trial 3 errored: MemoryError('Unable to allocate 12.0 GiB for an array')\n");
  EXPECT_EQ(host.cause(), "host-ram-kill");
  // The last line is the exception's own.
  const auto found = parse_quoted_exception(R"(Task failed: RuntimeError("one\ntwo\nKeyError: 'x'"))");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->type, "KeyError");
  EXPECT_EQ(found->message, "'x'");
}

TEST(Quoted, code_retries_and_halves_are_no_exceptions) {
  EXPECT_FALSE(parse_quoted_exception("raise ValueError('text')"));
  EXPECT_FALSE(parse_quoted_exception("failed: ValueError"));
  EXPECT_FALSE(parse_quoted_exception("failed: ValueError('"));
  EXPECT_FALSE(parse_quoted_exception("failed: ValueError('text') in 3 s"));
  EXPECT_FALSE(parse_quoted_exception("request failed: ConnectionError('reset'), retrying"));
  EXPECT_FALSE(parse_quoted_exception(" in DataLoader worker process 'Caught "));
  EXPECT_FALSE(answer_for("step 1 loss 2.0\nrequest failed: ConnectionError('reset'), retrying\nstep 2 loss 1.9\n")
                   .diagnosis.failure);
}

TEST(Quoted, a_traceback_on_one_line_has_its_frames) {
  const std::string text =
      R"(Traceback (most recent call last):\n  File "/w/train.py", line 44, in train\n    loss.backward()\n)"
      R"(torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB)";
  EXPECT_EQ(answer_for("worker said b'" + text + "'\n").diagnosis.phase, Phase::kBackward);
  EXPECT_EQ(answer_for("Run 7 errored: RuntimeError('" + std::string{kLoader} +
                       R"(RuntimeError: stack expects each tensor to be equal size')" + ")\n")
                .cause(),
            "not-memory");
  // A list of variables, drawn under the frame, is cut at the end of its line.
  EXPECT_EQ(answer_for("Traceback (most recent call last):\n  File \"/p/torch/_utils.py\", line 428, in reraise\n"
                       "    raise self.exc_type(msg)\n          │    │        └ 'Caught TypeError in DataLoader worker "
                       "process 1.\\nOriginal Traceback (most recent call last):\\n  File \"/p/torch/ut...\n")
                .cause(),
            "not-memory");
  // Backslashes without end are read once.
  EXPECT_TRUE(
      answer_for("(most recent call last):\\n" + std::string(4096, '\\') + "n\nRuntimeError: x\n").diagnosis.failure);
}

TEST(Quoted, a_debuggers_heading_has_its_message_below) {
  EXPECT_EQ(answer_for("Exception has occurred: RuntimeError\nExpected object of scalar type Long but got scalar type "
                       "Int for argument #2 'target'\n  File \"C:\\w\\train.py\", line 133, in train_one_epoch\n"
                       "    loss_x = criteria_x(logits_x, lbs_x)\n")
                .cause(),
            "not-memory");
}

TEST(Quoted, a_tensor_of_the_form_of_a_weight_is_none_of_a_batch) {
  EXPECT_TRUE(has_shape_of_weight("OOM when allocating tensor with shape[4096]"));
  EXPECT_TRUE(has_shape_of_weight("OOM when allocating tensor with shape[7,7,512,4096]."));
  EXPECT_FALSE(has_shape_of_weight("OOM when allocating tensor with shape[32,960,10,10]"));
  EXPECT_FALSE(has_shape_of_weight("OOM when allocating tensor with shape[8,8,8,512]"));
  EXPECT_FALSE(has_shape_of_weight("OOM when allocating tensor with shape[600,120,1503]"));
  EXPECT_FALSE(has_shape_of_weight("OOM when allocating tensor with shape[]"));
  EXPECT_FALSE(has_shape_of_weight("OOM when allocating tensor with shape[7,7,512"));
  EXPECT_EQ(answer_for("OOM when allocating tensor with shape[7,7,512,4096].\n").cause(), "genuine-capacity");
  EXPECT_EQ(answer_for("OOM when allocating tensor with shape[32,960,10,10]\n").cause(), "activation-bound");
}

TEST(Quoted, a_list_of_what_is_held_is_a_failure) {
  EXPECT_EQ(
      answer_for("I tensorflow/core/common_runtime/bfc_allocator.cc:693]      Summary of in-use Chunks by size:\n"
                 "I tensorflow/core/common_runtime/bfc_allocator.cc:696] 105 Chunks of size 256 totalling 26.2KiB\n")
          .cause(),
      "activation-bound");
}

TEST(Quoted, generation_that_reached_its_forward_pass_had_room_for_the_weights) {
  const auto in = [](const char* frame) {
    return answer_for(
               std::string{"Traceback (most recent call last):\n  File \"pred.py\", line 27, in get_pred\n    output = "
                           "model.generate(\n"} +
               frame + "torch.cuda.OutOfMemoryError: CUDA out of memory.\n")
        .cause();
  };
  EXPECT_EQ(in("  File \"/p/modeling_chatglm.py\", line 932, in forward\n    out = self.transformer(\n"),
            "activation-bound");
  EXPECT_EQ(in(""), "genuine-capacity");
}

TEST(Quoted, a_program_that_is_given_too_much_is_too_large) {
  const auto program = [](const char* given) {
    return answer_for(
        std::string{"XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory "
                    "space hbm. Used 30.21G of 15.48G hbm. Exceeded hbm capacity by 14.73G.\n"
                    "Total hbm usage >= 30.73G:\n    program          14.31G\n    arguments        "} +
        given + "\nProgram hbm requirement 14.31G:\n    HLO temp         14.31G (100.0% utilization)\n");
  };
  EXPECT_EQ(program("15.90G").cause(), "genuine-capacity");
  EXPECT_EQ(program("9.90G").cause(), "activation-bound");
}

TEST(Quoted, a_model_that_is_imported_is_on_its_way_in) {
  const auto in = [](const std::string& function) {
    return answer_for("Traceback (most recent call last):\n  File \"/p/setup.py\", line 968, in " + function +
                      "\n    self.go(a)\ntorch.OutOfMemoryError: CUDA out of memory.\n")
        .diagnosis.phase;
  };
  EXPECT_EQ(in("import_model_from_hf_name"), Phase::kLoad);
  EXPECT_NE(in("import_module"), Phase::kLoad);
  EXPECT_EQ(in("cache_batch_latents"), Phase::kForward);
  EXPECT_NE(in("get_batch"), Phase::kForward);
  EXPECT_NE(in("run_training_batch"), Phase::kForward);
}

}  // namespace
}  // namespace plimsoll::why
