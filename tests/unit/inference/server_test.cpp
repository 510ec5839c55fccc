// SPDX-License-Identifier: Apache-2.0
#include "inference/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support.h"

namespace plimsoll::inference {
namespace {

using test::server_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const Server& server) {
  const auto answer = resolved(server);
  return answer ? std::string{} : answer.error().message;
}

TEST(Server, vllm_defaults_follow_device_memory_version_and_entry_point) {
  Server server = server_of("llama3.1-8b", "h100");
  server.max_model_len = 8192;
  EXPECT_EQ(resolved(server)->max_num_batched_tokens, 8192);
  EXPECT_EQ(resolved(server)->max_num_seqs, 1024);
  EXPECT_EQ(resolved(server)->memory_fraction, 0.9);
  EXPECT_EQ(resolved(server)->block_size, 16);
  server.offline = true;
  EXPECT_EQ(resolved(server)->max_num_batched_tokens, 16384);
  server.offline = false;
  server.gpu = cluster::find_gpu("a100-sxm-80gb").value();
  EXPECT_EQ(resolved(server)->max_num_batched_tokens, 2048);
  EXPECT_EQ(resolved(server)->max_num_seqs, 256);
  server.gpu = cluster::find_gpu("b200").value();
  EXPECT_EQ(resolved(server)->max_num_batched_tokens, 8192);
  server.version = {0, 28, 0};
  EXPECT_EQ(resolved(server)->max_num_batched_tokens, 16384);
  EXPECT_EQ(resolved(server)->memory_fraction, 0.92);
}

TEST(Server, default_batched_tokens_are_capped_by_what_all_sequences_can_hold) {
  Server server = server_of("llama3.1-8b");
  server.max_model_len = 128;
  server.max_num_seqs = 16;
  EXPECT_EQ(resolved(server)->max_num_batched_tokens, 2048);
}

TEST(Server, sglang_reserves_by_its_own_rule) {
  Server server = server_of("llama3.1-8b", "h100");
  server.engine = Engine::kSglang;
  const Server ready = resolved(server).value();
  EXPECT_EQ(ready.max_num_batched_tokens, 8192);
  EXPECT_EQ(ready.block_size, 1);
  // 512 + 1.5 * 8192 + 128 + 2 * 256 + 8 * 57 prefill graphs of 80998 MiB.
  EXPECT_NEAR(*ready.memory_fraction, 1 - (512 + 12288 + 128 + 512 + 8 * 58) / 80998.0, 0.002);
  EXPECT_EQ(std::round(*ready.memory_fraction * 1000), *ready.memory_fraction * 1000);
}

TEST(Server, fractions_outside_zero_to_one_are_refused_by_the_engines_name) {
  Server server = server_of("llama3.1-8b");
  for (const double wrong : {0.0, -0.5, 1.01, std::numeric_limits<double>::quiet_NaN()}) {
    server.memory_fraction = wrong;
    EXPECT_THAT(refusal(server), HasSubstr("gpu_memory_utilization")) << wrong;
  }
  server.engine = Engine::kSglang;
  EXPECT_THAT(refusal(server), HasSubstr("mem_fraction_static"));
}

// The last third of Gemma 3n's layers reads keys of layers below: a stage of them alone has nothing to count blocks of.
TEST(Server, a_stage_without_a_cache_of_its_own_is_refused) {
  Server server = server_of("gemma3n-e2b", "h100");
  server.pipeline = 2;
  EXPECT_EQ(refusal(server), "");
  server.pipeline = 5;
  EXPECT_THAT(refusal(server), HasSubstr("layers 24 to 29 of gemma3n-e2b keep no cache"));
}

TEST(Server, a_split_that_does_not_divide_is_refused) {
  EXPECT_THAT(refusal(server_of("llama3.1-8b", "h100", 3)),
              HasSubstr("attention heads (32) must be divisible by tensor parallel size (3)"));
  EXPECT_THAT(refusal(server_of("qwen3-next-80b-a3b", "h100", 32)), HasSubstr("tensor parallel size 32"));
  Server server = server_of("llama3.1-8b");
  server.pipeline = 33;
  EXPECT_THAT(refusal(server), HasSubstr("33 exceeds the 32 layers"));
}

TEST(Server, zero_and_huge_sizes_are_refused) {
  const Server good = server_of("llama3.1-8b");
  const auto with = [&good](auto change) {
    Server server = good;
    change(server);
    return refusal(server);
  };
  EXPECT_THAT(with([](Server& s) { s.tensor = 0; }), HasSubstr("tensor parallel size is 0"));
  EXPECT_THAT(with([](Server& s) { s.pipeline = -1; }), HasSubstr("pipeline parallel size is -1"));
  EXPECT_THAT(with([](Server& s) { s.max_model_len = 0; }), HasSubstr("max_model_len is 0"));
  EXPECT_THAT(with([](Server& s) { s.max_num_seqs = 1LL << 40; }), HasSubstr("max_num_seqs is"));
  EXPECT_THAT(with([](Server& s) { s.max_num_batched_tokens = 0; }), HasSubstr("max_num_batched_tokens is 0"));
  EXPECT_THAT(with([](Server& s) { s.block_size = 0; }), HasSubstr("block_size is 0"));
  EXPECT_THAT(with([](Server& s) { s.kv_cache_bytes = 0; }), HasSubstr("KV cache memory is 0"));
  EXPECT_THAT(with([](Server& s) { s.gpu.capacity = 0; }), HasSubstr("memory of the GPU is 0"));
  EXPECT_THAT(with([](Server& s) { s.held_by_others = 1LL << 40; }), HasSubstr("other processes hold"));
  EXPECT_THAT(with([](Server& s) { s.model.max_positions = 0; }), HasSubstr("does not state its context length"));
  EXPECT_THAT(with([](Server& s) { s.model = {}; }), HasSubstr("model:"));
  EXPECT_THAT(with([](Server& s) {
                s.max_num_seqs = 64;
                s.max_num_batched_tokens = 32;
              }),
              HasSubstr("greater than or equal to max_num_seqs (64)"));
}

TEST(Server, left_over_layers_go_to_the_stages_before_the_last) {
  EXPECT_THAT(stage_layers(61, 4), ElementsAre(15, 15, 16, 15));
  EXPECT_THAT(stage_layers(62, 4), ElementsAre(15, 16, 16, 15));
  EXPECT_THAT(stage_layers(32, 1), ElementsAre(32));
}

TEST(Server, versions_are_read_as_releases_write_them) {
  EXPECT_EQ(parse_version("0.17.1").value(), (Version{0, 17, 1}));
  EXPECT_EQ(parse_version("v0.21").value(), (Version{0, 21, 0}));
  EXPECT_EQ(parse_version("0.20.1rc2").value(), (Version{0, 20, 1}));
  for (const char* wrong : {"", "v", "x.y", "0", "-1.2", "99999999999999.1"})
    EXPECT_FALSE(parse_version(wrong)) << wrong;
}

}  // namespace
}  // namespace plimsoll::inference
