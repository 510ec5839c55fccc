// SPDX-License-Identifier: Apache-2.0
// Claims that hold for the account of every server, tried on random ones.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "cluster/cluster.h"
#include "inference/memory.h"
#include "inference/speed.h"
#include "model/catalog.h"

namespace plimsoll::inference {
namespace {

constexpr std::uint64_t kServers = 4000;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool chance(double share) { return std::bernoulli_distribution(share)(random_); }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(values.size()) - 1))];
  }

 private:
  std::mt19937_64 random_;
};

// A server that resolved() accepts, or nothing.
std::optional<Server> random_server(std::uint64_t seed) {
  Draw draw(seed);
  Server server;
  server.model = model::find_model(draw.of(model::catalog_entries()).name).value();
  server.gpu = draw.of(cluster::catalog_gpus());
  server.engine = draw.chance(0.25) ? Engine::kSglang : Engine::kVllm;
  server.version = {0, static_cast<int>(draw.between(5, 30)), 0};
  server.tensor = 1LL << draw.between(0, 4);
  server.pipeline = draw.chance(0.3) ? draw.between(1, 5) : 1;
  server.weights = static_cast<WeightType>(draw.between(0, 4));
  server.kv = static_cast<KvType>(draw.between(0, 6));
  if (draw.chance(0.7)) server.memory_fraction = static_cast<double>(draw.between(1, 100)) / 100;
  if (draw.chance(0.7)) server.max_model_len = draw.between(1, 200'000);
  if (draw.chance(0.5)) server.max_num_seqs = draw.between(1, 2000);
  if (draw.chance(0.5)) server.max_num_batched_tokens = draw.between(1, 40'000);
  if (draw.chance(0.3)) server.block_size = 16 * draw.between(1, 8);
  if (draw.chance(0.1)) server.kv_cache_bytes = draw.between(1, 1LL << 36);
  server.enforce_eager = draw.chance(0.2);
  if (draw.chance(0.3)) server.held_by_others = draw.between(0, server.gpu.capacity);
  if (!resolved(server)) return std::nullopt;
  return server;
}

std::int64_t blocks_of(const Server& server) { return account(server).value().blocks; }

TEST(InferenceProperty, rows_sum_to_the_capacity_and_sizes_are_sane) {
  std::uint64_t tried = 0;
  for (std::uint64_t seed = 0; seed < kServers; ++seed) {
    const auto server = random_server(seed);
    if (!server) continue;
    const ServerMemory memory = account(*server).value();
    std::int64_t sum = 0;
    for (const MemoryRow& row : memory.table) {
      sum += row.bytes;
      ASSERT_TRUE(row.bytes >= 0 || row.name == "missing") << row.name << ", seed " << seed;
    }
    ASSERT_EQ(sum, server->gpu.capacity) << "seed " << seed;
    ASSERT_GT(memory.bytes_per_block, 0) << "seed " << seed;
    ASSERT_GE(memory.blocks, 0) << "seed " << seed;
    if (memory.start_up_error.empty()) {
      ASSERT_GT(memory.blocks, 0) << "seed " << seed;
      ASSERT_TRUE(server->engine == Engine::kSglang || memory.max_concurrency >= 1) << "seed " << seed;
      ASSERT_TRUE(memory.table.back().bytes >= 0 || !memory.capture_risk.empty()) << "seed " << seed;
    }
    ++tried;
  }
  EXPECT_GT(tried, kServers / 3) << "a third of the draws should be real servers";
}

TEST(InferenceProperty, more_batched_tokens_never_give_more_blocks) {
  for (std::uint64_t seed = 0; seed < kServers; ++seed) {
    const auto server = random_server(seed);
    // SGLang's own fraction, and the number of sequences that vLLM derives, follow the tokens.
    if (!server || !server->memory_fraction || !server->max_num_seqs) continue;
    Server more = *server;
    more.max_num_batched_tokens =
        *resolved(*server)->max_num_batched_tokens + 1 + static_cast<std::int64_t>(seed % 9000);
    ASSERT_LE(blocks_of(more), blocks_of(*server)) << "seed " << seed;
  }
}

TEST(InferenceProperty, more_utilisation_never_gives_fewer_blocks) {
  for (std::uint64_t seed = 0; seed < kServers; ++seed) {
    const auto server = random_server(seed);
    if (!server || !server->memory_fraction || *server->memory_fraction >= 0.99) continue;
    Server more = *server;
    more.memory_fraction = *server->memory_fraction + 0.01;
    ASSERT_GE(blocks_of(more), blocks_of(*server)) << "seed " << seed;
  }
}

TEST(InferenceProperty, a_larger_batch_or_context_is_never_faster) {
  for (std::uint64_t seed = 0; seed < kServers; ++seed) {
    const auto server = random_server(seed);
    if (!server || !speed_is_known(*server)) continue;
    const Speed speed(resolved(*server).value());
    ASSERT_LE(speed.decode(8, 1000).seconds, speed.decode(64, 1000).seconds) << "seed " << seed;
    ASSERT_LE(speed.decode(64, 1000).seconds, speed.decode(64, 9000).seconds) << "seed " << seed;
    ASSERT_LE(speed.prefill(100, 50), speed.prefill(3000, 50)) << "seed " << seed;
    ASSERT_GT(64 / speed.decode(64, 1000).seconds, 8 / speed.decode(8, 1000).seconds) << "seed " << seed;
  }
}

}  // namespace
}  // namespace plimsoll::inference
