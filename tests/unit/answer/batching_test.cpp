// SPDX-License-Identifier: Apache-2.0
#include "answer/batching.h"

#include <gtest/gtest.h>

#include "answer/fit.h"

namespace plimsoll::answer {
namespace {

job::Settings with(job::Settings settings, const job::Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

const job::Settings kJob = {{"model", "llama3.2-1b"},
                            {"num_layers", "2"},
                            {"framework", "transformers"},
                            {"gpu", "h100"},
                            {"gpus", "4"},
                            {"load_dtype", "bf16"},
                            {"seq_length", "2048"},
                            {"micro_batch_size", "4"},
                            {"gradient_accumulation_steps", "4"},
                            {"bf16", "true"},
                            {"gradient_checkpointing", "true"}};

Batching of(const job::Settings& more) {
  const auto request = job::read_request({}, {});
  const job::Request made = request->with(with(kJob, more));
  const auto job = job::resolve(made);
  EXPECT_TRUE(job.has_value()) << to_string(job.error());
  auto answer = batching(made, *job, {});
  EXPECT_TRUE(answer.has_value()) << to_string(answer.error());
  EXPECT_TRUE(answer->has_value());
  return **answer;
}

double waste(const Batching::Row& row) { return 1 - row.real_share; }

TEST(Batching, nothing_is_said_where_no_lengths_are) {
  const job::Request made = job::read_request({}, {})->with(kJob);
  const auto answer = batching(made, *job::resolve(made), {});
  ASSERT_TRUE(answer.has_value());
  EXPECT_FALSE(answer->has_value());
}

TEST(Batching, samples_that_fill_the_sequence_leave_nothing_to_win) {
  const Batching all = of({{"sample_mean", "2048"}});
  for (const Batching::Row& row : all.rows) {
    EXPECT_EQ(row.tokens, 2048) << row.name;
    EXPECT_EQ(row.samples, 1) << row.name;
    EXPECT_DOUBLE_EQ(row.real_share, 1) << row.name;
    EXPECT_EQ(row.device_used, all.rows[0].device_used) << row.name;
    EXPECT_NEAR(row.times_as_fast, 1, 1e-9) << row.name;
  }
}

TEST(Batching, rows_waste_less_and_run_faster_in_their_order) {
  const Batching all = of({{"sample_mean", "400"}, {"sample_cv", "0.9"}});
  ASSERT_EQ(all.rows.size(), 3U);
  EXPECT_NEAR(all.samples.mean, 400, 1e-6);
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_LT(waste(all.rows[i]), waste(all.rows[i - 1])) << all.rows[i].name;
    EXPECT_GT(all.rows[i].tokens_per_second, all.rows[i - 1].tokens_per_second) << all.rows[i].name;
  }
  EXPECT_LT(waste(all.rows[2]), 0.01);
  // The longest batch is a fixed one; the usual one is smaller.
  EXPECT_EQ(all.rows[1].device_used, all.rows[0].device_used);
  EXPECT_LT(all.rows[1].usual, all.rows[1].device_used);
}

TEST(Batching, a_micro_batch_of_one_holds_no_padding) {
  const Batching all = of({{"micro_batch_size", "1"}, {"sample_mean", "400"}, {"sample_cv", "0.9"}});
  EXPECT_DOUBLE_EQ(all.rows[1].real_share, 1);
}

TEST(Batching, two_lengths_are_as_they_are_counted) {
  // Half of the samples have 100 tokens, half 1500: a micro-batch of four is short once in sixteen, and a sequence of
  // 2048 holds one long sample and five short ones, until the short ones are used up.
  const Batching all = of({{"sample_lengths", "[100,1500]"}});
  EXPECT_NEAR(all.samples.mean, 800, 1e-6);
  EXPECT_EQ(all.samples.longest, 1500);
  EXPECT_NEAR(all.rows[1].tokens, 1500 - 1400.0 / 16, 15);
  EXPECT_NEAR(all.rows[2].samples, 2, 0.05);
  EXPECT_LT(all.rows[1].device_used, all.rows[0].device_used);
}

TEST(Batching, ranks_that_gather_weights_wait_at_every_micro_batch) {
  const job::Settings lengths = {{"sample_mean", "400"}, {"sample_cv", "0.9"}};
  const Batching apart = of(with(lengths, {{"sharding", "ddp"}}));
  const Batching together = of(with(lengths, {{"sharding", "fsdp2"}}));
  EXPECT_FALSE(apart.waits_each_micro_batch);
  EXPECT_TRUE(together.waits_each_micro_batch);
  // What the same padding is worth against fixed lengths.
  EXPECT_LT(together.rows[1].times_as_fast, apart.rows[1].times_as_fast);
}

TEST(Batching, attention_that_ends_with_a_sample_is_faster) {
  const job::Settings lengths = {{"sample_mean", "300"}, {"sample_cv", "0.5"}};
  const Batching across = of(lengths);
  const Batching within = of(with(lengths, {{"attn_implementation", "flash_attention_2"}}));
  EXPECT_FALSE(across.within_samples);
  EXPECT_TRUE(within.within_samples);
  EXPECT_GT(within.rows[2].tokens_per_second, across.rows[2].tokens_per_second);
}

TEST(Batching, what_cannot_be_is_refused) {
  for (const job::Settings& wrong : std::vector<job::Settings>{{{"sample_mean", "5000"}},
                                                               {{"sample_cv", "1"}},
                                                               {{"sample_max", "100"}},
                                                               {{"sample_mean", "200"}, {"sample_max", "100"}},
                                                               {{"sample_mean", "9"}, {"sample_lengths", "[9]"}},
                                                               {{"sample_lengths", "[0]"}},
                                                               {{"sample_lengths", "/nowhere/lengths"}}}) {
    const job::Request made = job::read_request({}, {})->with(with(kJob, wrong));
    const auto job = job::resolve(made);
    ASSERT_TRUE(job.has_value()) << to_string(job.error());
    EXPECT_FALSE(batching(made, *job, {}).has_value()) << wrong.front().first;
  }
}

}  // namespace
}  // namespace plimsoll::answer
