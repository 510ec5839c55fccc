// SPDX-License-Identifier: Apache-2.0
// The loop between trainer and servers as the simulation and the closed form see it: rates, limits and rules, without
// frameworks or memory. Seconds and tokens.
#pragma once

#include <cstdint>

#include "inference/speed.h"
#include "rl/lengths.h"

namespace plimsoll::rl {

// When new groups may start (facts rl-and-inference.md 3).
enum class Dispatch : std::uint8_t {
  kLevel,  // Telescope, prime-rl: while batches cut - updates <= limit; lanes bound the rest
  kQuota,  // verl, NeMo-RL: groups started - groups trained at the last update < (1 + limit) batches
  kBatch,  // OpenRLHF, one-step-off: a whole batch at a time, at most `limit` batches ahead
};

struct Loop {
  // Servers.
  std::int64_t servers = 1;
  std::int64_t lanes = 0;        // requests in flight per server; 0: no limit
  std::int64_t max_running = 1;  // of them decoded at once
  double kv_tokens = 0;          // that the cache of one server holds
  double block = 16;             // tokens
  double prefill_budget = 8192;  // tokens of one forward pass
  bool prefix_caching = false;
  inference::Speed speed;
  // Samples.
  Distribution prompt;
  Distribution completion;
  std::int64_t longest = 0;  // tokens of prompt and completion at most
  std::int64_t group_size = 1;
  std::int64_t prompts_per_step = 1;
  double zero_advantage = 0;  // share of groups that are dropped for it
  double reward_seconds = 0;
  double prompt_seconds = 0;  // a lane waits this long for its next prompt
  bool individual_lanes = true;
  bool free_after_generation = true;
  // Rules.
  Dispatch dispatch = Dispatch::kLevel;
  double limit = 0;
  std::int64_t max_off_policy_steps = -1;
  bool discards_late = false;     // Telescope: a group that ends more than `limit` batches after its start
  bool queue_counts = false;      // prime-rl: waiting for the trainer ages a sample too
  bool in_flight_updates = true;  // else servers run empty before an update
  std::int64_t sync_every = 1;
  // Trainer.
  double train_seconds = 1;  // of a batch
  double trained_share = 1;  // of its tokens: what truncation to seq_len leaves
  double sync_seconds = 0;   // the trainer's, after a batch
  double pause_seconds = 0;  // of them the servers stand still, at the end
  bool colocated = false;    // servers stand still while the trainer works

  [[nodiscard]] std::int64_t samples() const { return group_size * prompts_per_step; }
  // Seconds to prefill one token whose context is this long on average: its share of a full forward pass, since
  // prefill rides along with decode.
  [[nodiscard]] double prefill_seconds(double tokens, double mean_context) const {
    return tokens * speed.prefill(prefill_budget, mean_context) / prefill_budget;
  }
  // Tokens of cache that a prompt takes per sample of its group.
  [[nodiscard]] double prompt_share() const { return prefix_caching ? 1.0 / static_cast<double>(group_size) : 1.0; }
};

}  // namespace plimsoll::rl
