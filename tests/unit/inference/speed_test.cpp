// SPDX-License-Identifier: Apache-2.0
#include "inference/speed.h"

#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::inference {
namespace {

using test::server_of;

Speed speed_of(Server server) { return Speed(resolved(server).value()); }

TEST(Speed, the_published_example_of_qwen_3b_on_an_h100) {
  // facts rl-and-inference.md 7: context 2000, share 0.8 of the bandwidth, neither host nor messages.
  const Speed speed = speed_of(server_of("qwen2.5-3b", "h100"));
  const std::pair<double, double> kRows[] = {{32, 10e3}, {64, 15.7e3}, {128, 22e3}, {256, 27e3}, {512, 31e3}};
  for (const auto& [batch, tokens_per_second] : kRows) {
    const double memory = speed.decode(batch, 2000).memory * kStreamShare / 0.8;
    EXPECT_NEAR(batch / memory, tokens_per_second, 0.02 * tokens_per_second) << batch;
  }
}

TEST(Speed, a_step_is_the_larger_of_memory_and_compute_with_messages_and_host) {
  const Speed speed = speed_of(server_of("llama3.1-70b", "h100", 4));
  const DecodeStep step = speed.decode(64, 4000);
  EXPECT_GT(step.memory, step.compute);
  EXPECT_DOUBLE_EQ(step.seconds, step.memory + step.messages + step.host);
  // 160 all-reduces of 8 to 20 us.
  EXPECT_GT(step.messages, 160 * 8e-6);
  EXPECT_LT(step.messages, 160 * 20e-6);
  EXPECT_GT(speed.decode(100000, 1).compute, speed.decode(100000, 1).memory);
}

TEST(Speed, large_batches_read_all_experts_and_small_ones_few) {
  const Server server = server_of("qwen3-30b-a3b", "h100");
  const Speed speed = speed_of(server);
  const double one = speed.decode(1, 0).memory;
  const double many = speed.decode(512, 0).memory;
  const double all = static_cast<double>(weight_bytes(server)) / (server.gpu.rates.hbm * kStreamShare);
  EXPECT_LT(one, 0.15 * all);
  EXPECT_GT(many, 0.97 * all);
  EXPECT_LE(many, all);
}

TEST(Speed, tensor_parallelism_is_faster_in_a_node_and_slower_across) {
  const double one = speed_of(server_of("llama3.1-8b", "h100", 1)).decode(32, 2000).seconds;
  Server server = server_of("llama3.1-8b", "h100", 4);
  const double four = speed_of(server).decode(32, 2000).seconds;
  server.gpus_per_node = 2;
  const double across = speed_of(server).decode(32, 2000).seconds;
  EXPECT_LT(four, one);
  EXPECT_GT(across, four);
}

TEST(Speed, graphs_save_host_time) {
  Server server = server_of("qwen2.5-3b", "h100");
  const double with = speed_of(server).decode(1, 100).host;
  server.enforce_eager = true;
  const double without = speed_of(server).decode(1, 100).host;
  EXPECT_GE(with, 0.2e-3);
  EXPECT_LE(with, 0.5e-3);
  EXPECT_GE(without, 1e-3);
  EXPECT_LE(without, 3e-3);
}

TEST(Speed, prefill_is_bound_by_compute_and_grows_with_context) {
  const Server server = server_of("llama3.1-8b", "h100");
  const Speed speed = speed_of(server);
  // 2 * 6.98e9 * 8192 FLOPs at 0.6 of 989 TFLOP/s; embedding and head are not multiplied.
  EXPECT_NEAR(speed.prefill(8192, 0), 0.193, 0.002);
  EXPECT_GT(speed.prefill(8192, 8192), speed.prefill(8192, 0));
  EXPECT_GT(speed.prefill(1, 0), 0);
  EXPECT_EQ(speed.prefill(0, 0), 0);
}

TEST(Speed, windows_bound_what_a_step_reads) {
  const Speed speed = speed_of(server_of("gemma3-27b", "h100"));
  const double near = speed.decode(64, 1024).memory;
  const double far = speed.decode(64, 8192).memory;
  const double full = speed.decode(64, 0).memory;
  EXPECT_LT(far - full, 3 * (near - full)) << "52 of 62 layers see 1024 tokens at most";
}

TEST(Speed, pipeline_stages_share_the_cache_and_each_read_their_weights) {
  Server server = server_of("llama3.1-70b", "h100", 4);
  const DecodeStep one = speed_of(server).decode(64, 1000);
  server.pipeline = 2;
  const DecodeStep two = speed_of(server).decode(64, 1000);
  EXPECT_LT(two.memory, one.memory);
  EXPECT_GT(two.memory, 0.5 * one.memory);
}

TEST(Speed, a_gpu_without_rates_has_no_speed) {
  Server server = server_of("llama3.1-8b");
  EXPECT_TRUE(speed_is_known(server));
  server.gpu.rates.hbm = 0;
  EXPECT_FALSE(speed_is_known(server));
}

}  // namespace
}  // namespace plimsoll::inference
