// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules: warm-up, sets in flight and messages held (facts megatron-anatomy.md 5, 6).
#include "step/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace plimsoll::step {
namespace {

// Passes that keep nothing but are counted.
class CountingRunner final : public PassRunner {
 public:
  explicit CountingRunner(Tape& tape, const PipelineShape& shape) : tape_(tape), shape_(shape) {}

  Tensor forward(std::int64_t chunk, std::int64_t micro_batch, const Tensor& received) override {
    EXPECT_TRUE(in_flight_.insert({chunk, micro_batch}).second) << "forward ran twice";
    const bool has_embedding = shape_.rank == 0 && chunk == 0;
    EXPECT_EQ(static_cast<bool>(received), !has_embedding) << "chunk " << chunk;
    most = std::max(most, static_cast<std::int64_t>(in_flight_.size()));
    ++forwards;
    const bool has_loss = shape_.rank == shape_.stages - 1 && chunk == shape_.chunks - 1;
    return has_loss ? Tensor{} : tape_.alloc(shape_.message, Name::kHidden);
  }
  Tensor backward(std::int64_t chunk, std::int64_t micro_batch) override {
    if (first_backward_after < 0) first_backward_after = forwards;
    EXPECT_EQ(in_flight_.erase({chunk, micro_batch}), 1U) << "backward without its forward";
    ++backwards;
    const bool has_embedding = shape_.rank == 0 && chunk == 0;
    return has_embedding ? Tensor{} : tape_.alloc(shape_.message, Name::kGrad);
  }
  [[nodiscard]] bool done() const { return in_flight_.empty(); }

  std::int64_t forwards = 0;
  std::int64_t backwards = 0;
  std::int64_t most = 0;                   // sets in flight
  std::int64_t first_backward_after = -1;  // forwards

 private:
  Tape& tape_;
  PipelineShape shape_;
  std::set<std::pair<std::int64_t, std::int64_t>> in_flight_;
};

struct Ran {
  std::int64_t in_flight;
  std::int64_t warmup;
  std::int64_t left;  // bytes of messages after the step
};

Ran run(PipelineShape shape) {
  shape.message = 1024;
  Tape tape;
  CountingRunner runner(tape, shape);
  HeldMessages held;
  run_pipeline(shape, tape, runner, held);
  EXPECT_TRUE(runner.done());
  EXPECT_EQ(runner.forwards, shape.micro_batches * shape.chunks);
  EXPECT_EQ(runner.backwards, runner.forwards);
  return {runner.most, runner.first_backward_after - 1, tape.live()};
}

PipelineShape plain(std::int64_t p, std::int64_t r, std::int64_t m) {
  PipelineShape shape;
  shape.stages = p;
  shape.rank = r;
  shape.micro_batches = m;
  shape.group = p;
  return shape;
}

PipelineShape interleaved(std::int64_t p, std::int64_t r, std::int64_t v, std::int64_t m) {
  PipelineShape shape = plain(p, r, m);
  shape.chunks = v;
  return shape;
}

TEST(Schedule, one_stage_holds_one_micro_batch) {
  EXPECT_EQ(run(plain(1, 0, 8)).in_flight, 1);
  EXPECT_EQ(run(plain(1, 0, 8)).left, 0);
}

TEST(Schedule, one_f_one_b_holds_p_minus_r_micro_batches) {
  for (std::int64_t r = 0; r < 8; ++r) {
    EXPECT_EQ(warmup_passes(plain(8, r, 32)), 8 - r - 1);
    EXPECT_EQ(run(plain(8, r, 32)).in_flight, 8 - r);
    EXPECT_EQ(run(plain(8, r, 32)).warmup, 8 - r - 1);
  }
}

TEST(Schedule, fewer_micro_batches_than_stages_are_all_in_flight) {
  EXPECT_EQ(run(plain(8, 0, 3)).in_flight, 3);
  EXPECT_EQ(run(plain(8, 6, 3)).in_flight, 2);
  EXPECT_EQ(warmup_passes(plain(8, 0, 3)), 3);
}

// min(2(p-r-1) + (v-1)p + 1, m*v) chunk sets.
TEST(Schedule, interleaving_holds_the_recorded_chunk_sets) {
  EXPECT_EQ(warmup_passes(interleaved(4, 0, 5, 16)), 2 * 3 + 4 * 4);
  EXPECT_EQ(run(interleaved(4, 0, 5, 16)).in_flight, 23) << "70B PP4 VPP5, first rank";
  EXPECT_EQ(run(interleaved(4, 1, 5, 16)).in_flight, 2 * 2 + 16 + 1);
  EXPECT_EQ(run(interleaved(4, 3, 5, 16)).in_flight, 17) << "the last rank still holds (v-1)p + 1";
  EXPECT_EQ(run(interleaved(2, 0, 2, 8)).in_flight, 2 + 2 + 1);
  EXPECT_EQ(run(interleaved(8, 3, 5, 32)).in_flight, 2 * 4 + 4 * 8 + 1);
}

TEST(Schedule, interleaving_holds_at_most_every_chunk_pass) {
  EXPECT_EQ(warmup_passes(interleaved(4, 0, 2, 4)), 8);
  EXPECT_EQ(run(interleaved(4, 0, 2, 4)).in_flight, 8);
}

TEST(Schedule, overlapped_expert_communication_warms_up_once_more) {
  PipelineShape shape = interleaved(4, 0, 2, 16);
  shape.extra_warmup = true;
  EXPECT_EQ(warmup_passes(shape), 2 * 3 + 4 + 1);
  EXPECT_EQ(run(shape).in_flight, 12);
}

// overlap_p2p_comm_warmup_flush: the next message has its room while a pass of the warm-up or the flush runs.
TEST(Schedule, messages_awaited_early_cost_one_more_where_all_passes_are_in_the_warm_up) {
  const auto peak = [](PipelineShape shape, bool prefetches) {
    shape.message = 1024;
    shape.overlap = true;
    shape.prefetches = prefetches;
    Tape tape;
    CountingRunner runner(tape, shape);
    HeldMessages held;
    run_pipeline(shape, tape, runner, held);
    EXPECT_TRUE(runner.done());
    return std::pair{tape.peak(), tape.live()};
  };
  const auto [without, left_without] = peak(interleaved(4, 0, 2, 4), false);
  const auto [with, left_with] = peak(interleaved(4, 0, 2, 4), true);
  EXPECT_EQ(with, without + 1024);
  EXPECT_EQ(left_with, left_without);
  for (const std::int64_t rank : {0, 1, 3}) {
    const auto before = peak(interleaved(4, rank, 3, 8), false);
    const auto after = peak(interleaved(4, rank, 3, 8), true);
    EXPECT_LE(after.first, before.first + 1024) << rank;
    EXPECT_EQ(after.second, before.second) << rank;
  }
}

TEST(Schedule, a_smaller_group_of_micro_batches_warms_up_less) {
  PipelineShape shape = interleaved(4, 0, 3, 16);
  shape.group = 8;
  EXPECT_EQ(warmup_passes(shape), 2 * 3 + 2 * 8);
  EXPECT_EQ(run(shape).in_flight, 23);
}

TEST(Schedule, gpipe_holds_every_micro_batch) {
  PipelineShape shape = plain(4, 0, 12);
  shape.gpipe = true;
  EXPECT_EQ(run(shape).in_flight, 12);
}

// Section 6: two hidden states of every receiving chunk stay attached to it.
TEST(Schedule, a_step_leaves_one_input_and_one_gradient_per_receiving_chunk) {
  constexpr std::int64_t kMessage = 1024;
  EXPECT_EQ(run(plain(4, 0, 8)).left, 0) << "the first stage receives nothing";
  EXPECT_EQ(run(plain(4, 2, 8)).left, 2 * kMessage);
  EXPECT_EQ(run(interleaved(4, 0, 5, 16)).left, 4 * 2 * kMessage) << "all chunks but the one with the embedding";
  EXPECT_EQ(run(interleaved(4, 2, 5, 16)).left, 5 * 2 * kMessage);
}

TEST(Schedule, a_second_step_leaves_what_the_first_left) {
  for (const PipelineShape& base : {plain(4, 2, 8), interleaved(4, 0, 5, 16), interleaved(4, 3, 2, 8)}) {
    PipelineShape shape = base;
    shape.message = 1024;
    Tape tape;
    HeldMessages held;
    std::int64_t after_first = 0;
    for (int step = 0; step < 2; ++step) {
      CountingRunner runner(tape, shape);
      run_pipeline(shape, tape, runner, held);
      if (step == 0) after_first = tape.live();
    }
    EXPECT_EQ(tape.live(), after_first);
  }
}

TEST(Schedule, outputs_that_are_not_deallocated_stay_one_per_pass_in_flight) {
  PipelineShape shape = plain(4, 0, 8);
  shape.message = 1024;
  const auto peak_of = [](const PipelineShape& s) {
    Tape tape;
    CountingRunner runner(tape, s);
    HeldMessages held;
    run_pipeline(s, tape, runner, held);
    EXPECT_EQ(tape.live(), 0);
    return tape.peak();
  };
  const std::int64_t dropped = peak_of(shape);
  shape.deallocates_outputs = false;
  // Three of the warm-up, and the one of the running pass, which lives through its backward either way
  // only here.
  EXPECT_EQ(peak_of(shape) - dropped, 3 * 1024);
}

// Simulating fewer micro-batches gives the same peak.
TEST(Schedule, micro_batches_beyond_the_warm_up_repeat_the_peak) {
  for (const auto& [p, v] : {std::pair<std::int64_t, std::int64_t>{4, 1}, {4, 2}, {2, 5}, {8, 3}}) {
    for (std::int64_t r = 0; r < p; ++r) {
      PipelineShape shape = interleaved(p, r, v, 8 * p);
      shape.message = 1024;
      const auto peak_of = [](const PipelineShape& s) {
        Tape tape;
        CountingRunner runner(tape, s);
        HeldMessages held;
        for (int step = 0; step < 2; ++step) run_pipeline(s, tape, runner, held);
        return std::pair{tape.peak(), runner.most};
      };
      const auto whole = peak_of(shape);
      shape.micro_batches = micro_batches_to_simulate(shape);
      EXPECT_LT(shape.micro_batches, 8 * p);
      EXPECT_EQ(peak_of(shape), whole) << "p " << p << " v " << v << " r " << r;
    }
  }
}

}  // namespace
}  // namespace plimsoll::step
