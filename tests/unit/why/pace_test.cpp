// SPDX-License-Identifier: Apache-2.0
#include "why/pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "why/pace_line.h"
#include "why/tempo.h"

namespace plimsoll::why {
namespace {

std::vector<PacePoint> steps(const std::vector<double>& seconds) {
  std::vector<PacePoint> points;
  for (std::size_t i = 0; i < seconds.size(); ++i)
    points.push_back({static_cast<std::int64_t>(i + 1), seconds[i], 0, 0, static_cast<std::int64_t>(i + 1)});
  return points;
}

struct Read {
  const char* text;
  const char* format;
  double seconds;
  double tokens;
  double samples;
  std::optional<std::int64_t> step;
};

class PaceLines : public ::testing::TestWithParam<Read> {};

TEST_P(PaceLines, are_read_with_their_unit) {
  const auto line = parse_pace(GetParam().text);
  ASSERT_TRUE(line.has_value()) << GetParam().text;
  EXPECT_EQ(line->format, GetParam().format);
  EXPECT_NEAR(line->seconds, GetParam().seconds, 1e-9);
  EXPECT_NEAR(line->tokens, GetParam().tokens, 1e-9);
  EXPECT_NEAR(line->samples, GetParam().samples, 1e-9);
  EXPECT_EQ(line->step, GetParam().step);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, PaceLines,
    ::testing::Values(
        Read{
            "iteration      100/     500 | consumed samples: 3200 | elapsed time per iteration (ms): 1234.5 | lr: 1e-4",
            "megatron", 1.2345, 0, 0, 100},
        Read{"step: 10  loss: 8.1  memory: 40.1GiB(50.6%)  tps: 5,123  tflops: 300.1  mfu: 30.1%", "torchtitan", 0,
             5123, 0, 10},
        Read{"epoch=0/micro_step=20/global_step=20, RunningAvgSamplesPerSec=12.3, CurrSamplesPerSec=12.5, "
             "MemAllocated=1GB",
             "deepspeed", 0, 0, 12.5, 20},
        Read{"{\"step\": 7, \"loss\": 2.1, \"step_time\": 0.75}", "named", 0.75, 0, 0, 7},
        Read{"step 9 | loss 2.1 | step_time_ms 750.5 | tok/s 9000", "named", 0.7505, 0, 0, 9},
        Read{"iter 100: loss 3.2104, time 123.45ms, mfu 40.12%", "named", 0.12345, 0, 0, 100},
        Read{"mmpose - INFO - Epoch [10][18650/18726]\tlr: 5.000e-04, eta: 7 days, 21:03:26, time: 0.181, data_time: "
             "0.002, memory: 1418, loss: 0.0010",
             "named", 0.181, 0, 0, 10 * 18726 + 18650},
        Read{"d2.utils.events]:  eta: 19:46:57  iter: 4979  total_loss: 9.924  time: 0.2814  data_time: 0.0108  lr: "
             "2.5e-05  max_mem: 5418M",
             "named", 0.2814, 0, 0, 4979},
        Read{"Epoch: [3]  [ 150/2471]  eta: 0:19:12  lr: 0.0004  loss: 31.2 (33.1)  time: 0.4911  data: 0.0101  max "
             "mem: 12873",
             "named", 0.4911, 0, 0, 3 * 2471 + 150},
        Read{"1epoch:train:1-100batch: iter_time=1.2e-04, forward_time=0.093, loss=91.2, backward_time=0.07, "
             "train_time=0.83",
             "named", 0.83, 0, 0, std::nullopt},
        Read{"completed step: 10, seconds: 5.125, TFLOP/s/device: 120.155, loss: 7.1", "named", 5.125, 0, 0, 10},
        Read{"ep 13 train, step 95, ctc 4.293, num_seqs 9, mem_usage:cuda:2 9.0GB, 0.750 sec/step", "named", 0.75, 0, 0,
             95},
        Read{"1093/1093 [=======] - 812s 743ms/step - loss: 2.3112", "named", 0.743, 0, 0, std::nullopt},
        Read{"| INFO | train_inner | {\"epoch\": 1, \"loss\": \"12.1\", \"ups\": \"0.5\", \"num_updates\": \"200\"}",
             "named", 2, 0, 0, 200},
        Read{"iteration: 10 / 1000 | elapsed_time_per_iteration_ms: 2.35K | tokens_per_sec: 446K", "named", 2.35, 0, 0,
             10},
        Read{"throughput/device/batches_per_second=0.2500", "named", 4, 0, 0, std::nullopt},
        Read{"step:12 - actor/loss:0.4 - timing_s/gen:60.1 - timing_s/step:123.5", "named", 123.5, 0, 0, 12}));

TEST(PaceLine, other_lines_say_nothing) {
  for (const char* text :
       {"", "loading took 12 s", "Loading checkpoint shards: 50%|#####     | 1/2 [00:10<00:10, 10.36s/it]",
        "eval loss 2.0 time 3", "tps of nothing"})
    EXPECT_FALSE(parse_pace(text).has_value()) << text;
}

TEST(PaceLine, timers_have_the_fastest_and_the_slowest_rank) {
  const auto both = parse_timer("    forward-backward ...............................: (1104.06, 1200.31)");
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->name, "forward-backward");
  EXPECT_NEAR(both->least, 1.10406, 1e-9);
  EXPECT_NEAR(both->most, 1.20031, 1e-9);
  EXPECT_NEAR(parse_timer("    optimizer ......: 12.5")->most, 0.0125, 1e-9);
  EXPECT_FALSE(parse_timer("loss: 2.5").has_value());
}

TEST(Pace, a_bar_is_differenced_by_its_clock) {
  std::string text;
  for (int i = 1; i <= 60; ++i)
    text += "\r  5%|5   | " + std::to_string(i) + "/1000 [0" + std::to_string(i * 4 / 60) + ":" +
            (i * 4 % 60 < 10 ? "0" : "") + std::to_string(i * 4 % 60) + "<1:00:00,  9.99s/it]";
  const Pace pace = read_pace_text("run.log", text);
  ASSERT_GT(pace.points.size(), 5U);
  for (const PacePoint& point : pace.points) EXPECT_NEAR(point.seconds, 4, 0.5);
}

TEST(Pace, of_a_log_cut_anywhere_is_read_without_harm) {
  const std::string whole =
      "iteration 1/ 5 | elapsed time per iteration (ms): 1234.5 |\n(min, max) time across ranks (ms):\n"
      "    forward-backward .....: (1104.06, 1200.31)\nNCCL INFO NET/Socket : Using [0]eth0\nmfu: 41.2%\n";
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const Pace pace = read_pace_text("run.log", std::string_view(whole).substr(0, length));
    EXPECT_LE(pace.points.size(), 1U);
  }
}

TEST(Tempo, leaves_the_warm_up_out_of_the_steady_step) {
  const auto tempo = tempo_of(steps({9, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  ASSERT_TRUE(tempo.has_value());
  EXPECT_EQ(tempo->warm_up_steps, 2U);
  EXPECT_DOUBLE_EQ(tempo->steady, 1);
  EXPECT_DOUBLE_EQ(tempo->warm_up, 15);
}

TEST(Tempo, names_the_step_from_which_it_changed) {
  std::vector<double> seconds(40, 1.0);
  for (std::size_t i = 25; i < 40; ++i) seconds[i] = 1.3;
  const auto tempo = tempo_of(steps(seconds));
  ASSERT_TRUE(tempo->change.has_value());
  EXPECT_EQ(tempo->change->step, 26);
  EXPECT_FALSE(tempo_of(steps(std::vector<double>(40, 1.0)))->change.has_value());
}

TEST(Tempo, finds_what_comes_round_again) {
  std::vector<double> seconds(60, 1.0);
  for (std::size_t i = 9; i < 60; i += 10) seconds[i] = 4;
  const auto tempo = tempo_of(steps(seconds));
  EXPECT_EQ(tempo->spikes, 6U);
  EXPECT_EQ(tempo->period, 10);
  EXPECT_NEAR(tempo->lost_to_spikes, 18.0 / 78, 1e-9);
}

TEST(Tempo, sees_a_drift_and_not_a_jitter) {
  std::vector<double> rising;
  std::vector<double> shaking;
  for (int i = 0; i < 100; ++i) {
    rising.push_back(1 + 0.001 * i);
    shaking.push_back(i % 2 == 0 ? 0.98 : 1.02);
  }
  EXPECT_NEAR(tempo_of(steps(rising))->drift, 0.1 / 1.05, 0.01);
  EXPECT_NEAR(tempo_of(steps(shaking))->drift, 0, 0.005);
}

TEST(Tempo, of_too_few_steps_is_not_said) { EXPECT_FALSE(tempo_of(steps({1, 1, 1, 1})).has_value()); }

}  // namespace
}  // namespace plimsoll::why
