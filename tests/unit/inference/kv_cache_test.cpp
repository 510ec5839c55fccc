// SPDX-License-Identifier: Apache-2.0
#include "inference/kv_cache.h"

#include <gtest/gtest.h>

#include "support.h"

namespace plimsoll::inference {
namespace {

using test::server_of;

TEST(KvCache, bytes_per_token_are_those_of_the_published_table) {
  // facts rl-and-inference.md 4, in KiB, 16 bit, whole model.
  const std::pair<const char*, double> kRows[] = {
      {"qwen2.5-3b", 36},    {"qwen2.5-7b", 56},       {"llama3.1-8b", 128},    {"qwen3-4b", 144},
      {"qwen3-8b", 144},     {"qwen3-14b", 160},       {"qwen3-32b", 256},      {"llama3.1-70b", 320},
      {"qwen3-30b-a3b", 96}, {"qwen3-235b-a22b", 188}, {"deepseek-v3", 68.625},
  };
  for (const auto& [model, kib] : kRows)
    EXPECT_EQ(static_cast<double>(kv_bytes_per_token(server_of(model))), kib * 1024) << model;
}

TEST(KvCache, a_block_of_llama_70b_has_the_measured_size) {
  EXPECT_EQ(kv_bytes_per_block(server_of("llama3.1-70b"), 16), 5'242'880);
}

TEST(KvCache, tensor_parallelism_beyond_the_kv_heads_shrinks_it_no_further) {
  EXPECT_EQ(kv_bytes_per_token(server_of("qwen2.5-3b", "h100", 2)), 18 * 1024);
  EXPECT_EQ(kv_bytes_per_token(server_of("qwen2.5-3b", "h100", 4)), 18 * 1024);
}

TEST(KvCache, a_latent_is_whole_on_every_gpu) {
  EXPECT_EQ(kv_bytes_per_token(server_of("deepseek-v3", "h200", 8)), kv_bytes_per_token(server_of("deepseek-v3")));
}

TEST(KvCache, pipeline_stages_hold_their_own_layers) {
  Server server = server_of("llama3.1-8b");
  server.pipeline = 4;
  EXPECT_EQ(kv_bytes_per_token(server), 32 * 1024);
}

TEST(KvCache, fp8_halves_it_and_integers_carry_scales) {
  Server server = server_of("llama3.1-8b");
  server.kv = KvType::kFp8;
  EXPECT_EQ(kv_bytes_per_token(server), 64 * 1024);
  server.kv = KvType::kInt8;
  EXPECT_EQ(kv_bytes_per_token(server), 32 * 2 * 8 * (128 + 4));
  server.kv = KvType::kInt4;
  EXPECT_EQ(kv_bytes_per_token(server), 32 * 2 * 8 * (64 + 4));
  server.kv = KvType::kNvfp4;
  EXPECT_EQ(kv_bytes_per_token(server), 32 * 2 * 8 * (64 + 8));
}

TEST(KvCache, windows_and_full_layers_are_cut_into_groups_of_equal_size) {
  // Gemma 3 27B: 62 layers, every sixth full: 10 full, 52 with a window of 1024.
  const Server server = server_of("gemma3-27b");
  const CacheLayout layout = cache_layout(server, 16, 0, server.model.depth());

  EXPECT_EQ(layout.bytes_per_block, 10 * 16 * layer_bytes_per_token(server, server.model.layer(0).attention));
  ASSERT_EQ(layout.groups.size(), 2U);
  EXPECT_EQ(layout.groups[0].kind, CacheKind::kWindow);
  EXPECT_EQ(layout.groups[0].count, 6);
  EXPECT_EQ(layout.groups[1].kind, CacheKind::kFull);
  EXPECT_EQ(layout.groups[1].count, 1);
  // 32768 / 16 in the full group; (1023 + 2048) / 16 rounded up and one more in each window group.
  EXPECT_EQ(layout.blocks_per_request(32768, 2048), 2048 + 6 * (192 + 1));
}

TEST(KvCache, a_state_of_linear_attention_takes_one_block_and_sets_the_block_size) {
  Server server = server_of("qwen3-next-80b-a3b");
  const std::int64_t block = attention_block_size(server, 16);
  const CacheLayout layout = cache_layout(server, block, 0, server.model.depth());

  EXPECT_GT(block, 256);
  EXPECT_EQ(block % 16, 0);
  EXPECT_GE(block * layer_bytes_per_token(server, server.model.layer(3).attention),
            layer_state_bytes(server, server.model.layer(0).attention));
  // 12 full and 36 linear layers: one and three groups of 12.
  EXPECT_EQ(layout.group_count(), 4);
  EXPECT_EQ(layout.blocks_per_request(10 * block, 0), 10 + 3);
}

}  // namespace
}  // namespace plimsoll::inference
