// SPDX-License-Identifier: Apache-2.0
// Tape and Profile: sums, peaks, and the algebra that the folded answer rests on.
#include "step/tape.h"

#include <gtest/gtest.h>

#include <random>

namespace plimsoll::step {
namespace {

TEST(Tape, counts_blocks_of_512_bytes) {
  Tape tape;
  Tensor one = tape.alloc(1, Name::kHidden);
  EXPECT_EQ(one.bytes, 512);
  Tensor more = tape.alloc(513, Name::kHidden);
  EXPECT_EQ(tape.live(), 512 + 1024);
  tape.free(one);
  EXPECT_EQ(tape.live(), 1024);
  EXPECT_EQ(tape.peak(), 1536);
  tape.free(more);
  EXPECT_EQ(tape.live(), 0);
}

TEST(Tape, nothing_asked_for_is_nothing_allocated_and_can_be_freed) {
  Tape tape(true);
  Tensor none = tape.alloc(0, Name::kHidden);
  EXPECT_FALSE(none);
  tape.free(none);
  tape.touch(0, Name::kHidden);
  tape.rename(none, Name::kKey);
  EXPECT_EQ(tape.peak(), 0);
  EXPECT_TRUE(tape.events().empty());
}

TEST(Tape, freeing_twice_frees_once) {
  Tape tape;
  Tensor x = tape.alloc(512, Name::kHidden);
  tape.free(x);
  tape.free(x);
  EXPECT_EQ(tape.live(), 0);
}

TEST(Tape, a_touch_reaches_the_peak_and_leaves_nothing) {
  Tape tape;
  const Tensor kept = tape.alloc(1024, Name::kHidden);
  tape.touch(4096, Name::kHidden);
  EXPECT_EQ(tape.live(), kept.bytes);
  EXPECT_EQ(tape.peak(), 5120);
}

TEST(Tape, records_requests_frees_and_renames_with_one_id_per_tensor) {
  Tape tape(true);
  Tensor a = tape.alloc(100, Name::kHidden);
  Tensor b = tape.alloc(200, Name::kQuery);
  tape.rename(a, Name::kLayerInput);
  tape.free(b);
  ASSERT_EQ(tape.events().size(), 4U);
  EXPECT_EQ(tape.events()[0].requested, 100);
  EXPECT_EQ(tape.events()[1].id, 1U);
  EXPECT_EQ(tape.events()[2].bytes, 0);
  EXPECT_EQ(tape.events()[2].id, 0U);
  EXPECT_EQ(tape.events()[2].name, Name::kLayerInput);
  EXPECT_EQ(tape.events()[3].bytes, -512);
  EXPECT_EQ(tape.events()[3].id, 1U);
}

TEST(Tape, marks_say_from_which_event_on_a_moment_holds) {
  Tape tape(true);
  tape.enter(Phase::kForward);
  tape.at(Operation::kNorm1);  // nothing happened in between: one mark
  (void)tape.alloc(512, Name::kHidden);
  tape.layer(7);
  tape.at(Operation::kFc1Linear);
  (void)tape.alloc(512, Name::kHidden);
  ASSERT_EQ(tape.marks().size(), 2U);
  EXPECT_EQ(tape.marks()[0].event, 0U);
  EXPECT_EQ(tape.marks()[0].moment.operation, Operation::kNorm1);
  EXPECT_EQ(tape.marks()[1].event, 1U);
  EXPECT_EQ(tape.marks()[1].moment.layer, 7);
  EXPECT_EQ(tape.peak_moment().operation, Operation::kFc1Linear);
}

TEST(Tape, one_without_moments_has_the_same_events_and_sums) {
  const auto write = [](Tape& tape) {
    tape.enter(Phase::kForward);
    const Tape::Place begin = tape.place();
    tape.at(Operation::kNorm1);
    Tensor held = tape.alloc(4096, Name::kHidden);
    tape.at(Operation::kFc1Linear);
    tape.touch(512, Name::kHidden);
    tape.free(held);
    const Tape::Piece piece = tape.piece(begin, tape.place());
    tape.repeat(piece, {});
    tape.empty_cache();
    (void)tape.alloc(1024, Name::kHidden);
  };
  Tape kept(true);
  Tape dropped(true, Moments::kDropped);
  write(kept);
  write(dropped);
  EXPECT_GT(kept.marks().size(), 3U);
  ASSERT_EQ(dropped.marks().size(), 1U) << "the one that empties the cache";
  EXPECT_TRUE(dropped.marks()[0].empties_cache);
  EXPECT_EQ(dropped.marks()[0].event, 8U);
  EXPECT_EQ(dropped.peak(), kept.peak());
  EXPECT_EQ(dropped.live(), kept.live());
  kept.write_out();
  dropped.write_out();
  ASSERT_EQ(dropped.events().size(), kept.events().size());
  for (std::size_t i = 0; i < kept.events().size(); ++i) {
    EXPECT_EQ(dropped.events()[i].bytes, kept.events()[i].bytes) << i;
    EXPECT_EQ(dropped.events()[i].id, kept.events()[i].id) << i;
  }
}

TEST(Tape, a_span_has_a_peak_of_its_own) {
  Tape tape;
  tape.touch(8192, Name::kHidden);
  tape.begin_span();
  tape.touch(1024, Name::kHidden);
  EXPECT_EQ(tape.span_peak(), 1024);
  EXPECT_EQ(tape.peak(), 8192);
  tape.apply({2048, 0});
  EXPECT_EQ(tape.span_peak(), 2048);
}

TEST(Profile, then_is_the_first_followed_by_the_second) {
  const Profile rises{10, 4};
  const Profile falls{3, -2};
  EXPECT_EQ(rises.then(falls).peak, 10) << "4 + 3 stays below";
  EXPECT_EQ(rises.then(falls).net, 2);
  EXPECT_EQ(rises.then(rises).peak, 14) << "4 + 10";
  EXPECT_EQ(falls.then(rises).peak, 8) << "-2 + 10";
}

TEST(Profile, times_is_then_over_and_over) {
  EXPECT_EQ((Profile{10, 4}).times(0).peak, 0);
  for (const Profile& piece : {Profile{10, 4}, Profile{10, 0}, Profile{10, -3}, Profile{0, -1}}) {
    Profile chained = piece;
    for (std::int64_t n = 1; n < 6; ++n) {
      EXPECT_EQ(piece.times(n).net, chained.net) << n;
      EXPECT_EQ(piece.times(n).peak, chained.peak) << n;
      chained = chained.then(piece);
    }
  }
}

// Random pieces: measuring them apart and adding their profiles is the same as running them in a row.
TEST(Profile, applying_measured_pieces_equals_running_them) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    Tape run;
    Tape applied;
    std::vector<Tensor> live;
    Profile sum;
    for (int piece = 0; piece < 5; ++piece) {
      Tape measured;
      for (int i = 0; i < 8; ++i) {
        const auto bytes = static_cast<std::int64_t>(random() % 5000);
        if (random() % 3 == 0) {
          run.touch(bytes, Name::kHidden);
          measured.touch(bytes, Name::kHidden);
        } else if (random() % 2 == 0 || live.empty()) {
          live.push_back(run.alloc(bytes, Name::kHidden));
          (void)measured.alloc(bytes, Name::kHidden);
        } else {
          Tensor same = live.back();
          run.free(live.back());
          live.pop_back();
          measured.free(same);
        }
      }
      applied.apply(measured.profile());
      sum = sum.then(measured.profile());
    }
    ASSERT_EQ(applied.live(), run.live());
    ASSERT_EQ(applied.peak(), run.peak());
    ASSERT_EQ(sum.net, run.live());
    ASSERT_EQ(sum.peak, run.peak());
  }
}

TEST(Names, every_name_and_operation_has_a_text) {
  EXPECT_EQ(text_of(Name::kWeight), "weights");
  EXPECT_EQ(text_of(Name::kCpBuffer), "context-parallel buffers");
  EXPECT_EQ(category_of(Name::kCpBuffer), Category::kCommunication);
  EXPECT_EQ(text_of(Operation::kLogitsKept), "kept evaluation logits");
  for (int c = 0; c < kCategories; ++c) EXPECT_FALSE(text_of(static_cast<Category>(c)).empty());
  for (int p = 0; p <= static_cast<int>(Phase::kEvaluation); ++p) EXPECT_FALSE(text_of(static_cast<Phase>(p)).empty());
}

}  // namespace
}  // namespace plimsoll::step
