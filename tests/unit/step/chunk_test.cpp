// SPDX-License-Identifier: Apache-2.0
// Full recompute around the layers of a chunk (facts megatron-anatomy.md 2.3, 3.4), and the loss at its end
// (3.2).
#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::step {
namespace {

using megatron::ChunkBuilder;
using test::completed;
using test::Letters;
using test::letters_of_llama_70b;
using test::llama_70b;

struct Ran {
  std::int64_t kept;           // after the forward, without its output
  std::int64_t backward_peak;  // above what was live before the backward
};

// A middle chunk: it receives its input, which the schedule holds, and sends its output.
Ran run_middle_chunk(const job::Job& job, std::int64_t layers, bool folded) {
  const megatron::Choices choices = megatron::choices_of(job);
  const megatron::EndSizes end_sizes = megatron::end_sizes(job);
  const megatron::Ends ends(choices, end_sizes);
  megatron::LayerKind kind(choices, megatron::layer_sizes(job, job.model.kinds[0], false),
                           megatron::OffloadScope::kNone);
  job::Chunk chunk;
  chunk.first_layer = 20;
  chunk.num_layers = layers;
  const ChunkBuilder builder(job, chunk, ends, nullptr,
                             std::vector<megatron::LayerKind*>(static_cast<std::size_t>(layers), &kind), {}, folded);
  Tape tape;
  megatron::Pass pass;
  pass.received = tape.alloc(end_sizes.h, Name::kMessage);
  Tensor received = pass.received;
  Tensor output = builder.forward(tape, pass, false);
  EXPECT_EQ(output.bytes, end_sizes.h);
  tape.free(output);
  const std::int64_t kept = tape.live();
  const std::int64_t before = tape.peak();
  Tape backward;
  Tensor grad = builder.backward(backward, pass);
  EXPECT_EQ(grad.bytes, end_sizes.h);
  EXPECT_EQ(kept + backward.live(), received.bytes + grad.bytes) << "all but the received input and its gradient";
  EXPECT_GE(before, kept);
  return {kept, backward.peak()};
}

job::Job full_recompute(job::RecomputeMethod method, std::int64_t layers) {
  job::Job job = llama_70b();
  job.recompute.granularity = job::RecomputeGranularity::kFull;
  job.recompute.method = method;
  job.recompute.num_layers = layers;
  return completed(job);
}

TEST(Chunk, without_recompute_keeps_a_of_every_layer) {
  const Letters l = letters_of_llama_70b();
  for (const bool folded : {false, true})
    EXPECT_EQ(run_middle_chunk(completed(llama_70b()), 4, folded).kept, 4 * l.A());
}

TEST(FullRecompute, uniform_keeps_one_hidden_state_per_group_of_a_chunk) {
  const Letters l = letters_of_llama_70b();
  for (const bool folded : {false, true}) {
    EXPECT_EQ(run_middle_chunk(full_recompute(job::RecomputeMethod::kUniform, 1), 4, folded).kept, 4 * l.H());
    EXPECT_EQ(run_middle_chunk(full_recompute(job::RecomputeMethod::kUniform, 2), 4, folded).kept, 2 * l.H());
    EXPECT_EQ(run_middle_chunk(full_recompute(job::RecomputeMethod::kUniform, 4), 10, folded).kept, 3 * l.H())
        << "groups of 4, 4 and 2";
    EXPECT_EQ(run_middle_chunk(full_recompute(job::RecomputeMethod::kUniform, 99), 4, folded).kept, l.H());
  }
}

TEST(FullRecompute, block_keeps_a_hidden_state_of_the_first_layers_and_a_of_the_rest) {
  const Letters l = letters_of_llama_70b();
  for (const bool folded : {false, true}) {
    EXPECT_EQ(run_middle_chunk(full_recompute(job::RecomputeMethod::kBlock, 1), 4, folded).kept, l.H() + 3 * l.A());
    EXPECT_EQ(run_middle_chunk(full_recompute(job::RecomputeMethod::kBlock, 3), 4, folded).kept, 3 * l.H() + l.A());
    EXPECT_EQ(run_middle_chunk(full_recompute(job::RecomputeMethod::kBlock, 9), 4, folded).kept, 4 * l.H());
  }
}

// Replay of n layers (n*A - H, the input is kept), its output H, then the last layer's fc1 backward:
// d-fc1 F1, HF, H and the weight gradient 4fh/t, with F1 and F2 of that layer gone (section 3.3).
TEST(FullRecompute, the_backward_of_a_group_adds_its_replay) {
  const Letters l = letters_of_llama_70b();
  const std::int64_t weight_grad = 4 * l.f * l.h / l.t;
  EXPECT_EQ(weight_grad, 224 * kMiB);
  for (const std::int64_t n : {1, 2, 4}) {
    const Ran ran = run_middle_chunk(full_recompute(job::RecomputeMethod::kUniform, n), 4, false);
    const std::int64_t replay = n * l.A() - l.H() + l.H();
    const std::int64_t fc1_backward = l.F1() + l.HF() + l.H() + weight_grad - l.F1() - l.F2();
    EXPECT_EQ(ran.backward_peak, replay + fc1_backward) << n;
    EXPECT_EQ(run_middle_chunk(full_recompute(job::RecomputeMethod::kUniform, n), 4, true).backward_peak,
              ran.backward_peak);
  }
}

TEST(FullRecompute, distributed_inputs_are_a_tensor_parallel_slice) {
  job::Job job = llama_70b();
  job.parallel.sequence_parallel = false;
  job.recompute.granularity = job::RecomputeGranularity::kFull;
  job.recompute.num_layers = 1;
  job.recompute.distribute_saved = true;
  Letters l = letters_of_llama_70b();
  l.ts = 1;
  // The received input is the schedule's and stays whole.
  EXPECT_EQ(run_middle_chunk(completed(job), 4, false).kept, l.H() + 3 * l.H() / l.t);
}

struct Loss {
  std::int64_t forward_peak;
  std::int64_t kept;
  std::int64_t backward_peak;
};

// Head and loss alone: peaks without the hidden states, statistics and per-token helpers around them.
Loss run_loss(const job::Job& job) {
  const megatron::Choices choices = megatron::choices_of(job);
  const megatron::EndSizes sizes = megatron::end_sizes(job);
  const megatron::Ends ends(choices, sizes);
  Tape tape;
  megatron::EndKept kept;
  ends.head_forward(tape, tape.alloc(sizes.h, Name::kLayerInput), kept, false);
  const Letters l = letters_of_llama_70b();
  const std::int64_t around = 2 * l.H() + l.stats() / 2 + 8 * l.T() + 4 * 4 * l.T();
  const Loss result{tape.peak() - around, tape.live() - around, 0};
  Tape backward;
  megatron::ResidualGrad grad;
  Tensor head_weight_grad;
  ends.head_backward(backward, kept, grad, head_weight_grad);
  EXPECT_EQ(tape.live() + backward.live(), grad.tensor.bytes) << "only the residual gradient is left";
  return {result.forward_peak, result.kept, result.kept + backward.peak()};
}

constexpr std::int64_t kLogits = 128256 / 4 * 4096;  // elements on the rank

job::Job loss_job(job::LossKind loss) {
  job::Job job = llama_70b();
  job.kernels.loss = loss;
  job.kernels.gradient_accumulation_fusion = true;  // keeps the head's weight gradient out of the way
  return completed(job);
}

TEST(LossMemory, the_compiled_loss_holds_ten_bytes_per_logit) {
  const Loss loss = run_loss(loss_job(job::LossKind::kNativeFused));
  EXPECT_EQ(loss.forward_peak, 10 * kLogits);
  EXPECT_EQ(loss.kept, 4 * kLogits);
  EXPECT_EQ(loss.backward_peak, 10 * kLogits);
}

TEST(LossMemory, the_unfused_loss_holds_six_bytes_per_logit) {
  const Loss loss = run_loss(loss_job(job::LossKind::kUnfused));
  EXPECT_EQ(loss.forward_peak, 6 * kLogits);
  EXPECT_EQ(loss.kept, 4 * kLogits);
  EXPECT_EQ(loss.backward_peak, 6 * kLogits);
}

TEST(LossMemory, the_loss_of_transformer_engine_works_in_place_on_two_bytes) {
  const Loss loss = run_loss(loss_job(job::LossKind::kTe));
  EXPECT_EQ(loss.forward_peak, 2 * kLogits);
  EXPECT_EQ(loss.kept, 2 * kLogits);
}

// float() copies nothing then, and the loss works in place on the logits from there.
TEST(LossMemory, fp32_logits_are_not_copied) {
  job::Job job = loss_job(job::LossKind::kUnfused);
  job.kernels.logits = job::DType::kFp32;
  const Loss loss = run_loss(completed(job));
  EXPECT_EQ(loss.forward_peak, 4 * kLogits);
  EXPECT_EQ(loss.kept, 4 * kLogits);
  EXPECT_LT(loss.backward_peak, 5 * kLogits) << "the gradient of the hidden states beside them";
}

}  // namespace
}  // namespace plimsoll::step
