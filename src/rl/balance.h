// SPDX-License-Identifier: Apache-2.0
// The closed form of the loop (facts rl-and-inference.md 7, 8): what servers generate, what the trainer takes, the
// period of a step and who waits for whom. Exact for constant lengths; the simulation adds tails and rules.
#pragma once

#include <string_view>

#include "rl/loop.h"

namespace plimsoll::rl {

enum class Limit : std::uint8_t {
  kRollout,  // the trainer waits for samples
  kTrainer,  // generation is paused, or samples pile up
  kKvCache,  // as rollout, and the cache bounds the requests that run
  kLanes,    // as rollout, and lanes bound them while the cache has room
  kTail,     // as rollout, and the longest samples decide
  kWeightSync,
  kEnvironment,  // lanes wait for rewards or prompts
};
[[nodiscard]] std::string_view text_of(Limit limit);

struct Balance {
  double mean_context = 0;        // tokens, as a decode step meets them
  double kv_concurrency = 0;      // requests that the cache holds
  double concurrency = 0;         // requests that run at one server
  double decode_step = 0;         // seconds
  double turn = 0;                // seconds of a lane from one sample to the next
  double late_share = 0;          // of groups: discarded as too late
  double samples_per_second = 0;  // of all servers, before anything is dropped
  double generate = 0;            // seconds to generate one batch, what is dropped included
  double train = 0;               // seconds of a batch and its weight synchronisation
  double period = 0;              // seconds of a step
  double tokens_per_step = 0;
  double tokens_per_second = 0;  // trained
  Limit limit = Limit::kRollout;
};

// Requests that a cache holds with headroom: (tokens - 2 deviations) / mean (facts rl-and-inference.md 7).
[[nodiscard]] double kv_concurrency(const Loop& loop);

[[nodiscard]] Balance balance(const Loop& loop);

}  // namespace plimsoll::rl
