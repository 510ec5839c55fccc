// SPDX-License-Identifier: Apache-2.0
// The weights of one GPU of a server: which of them a quantised checkpoint stores in fewer bits, which every decode
// step reads, and which only the tokens that visit them do.
#pragma once

#include <cstdint>

#include "inference/server.h"

namespace plimsoll::inference {

// Bytes on one GPU of one pipeline stage.
struct StageWeights {
  double layers = 0;     // attention, dense MLPs, shared experts, routers, norms
  double experts = 0;    // routed experts
  double embedding = 0;  // the input table: looked up, not read
  double head = 0;       // the output matrix, read once per step; a tied one is counted here and not above

  [[nodiscard]] double total() const { return layers + experts + embedding + head; }
};

// Weights that a token multiplies, of the whole model.
struct ActiveWeights {
  double layers = 0;  // without routed experts
  double experts = 0;
  double head = 0;
};

// `first` and `count`: the stage's layers.
[[nodiscard]] StageWeights stage_weights(const Server& server, std::int64_t first, std::int64_t count);
[[nodiscard]] ActiveWeights active_weights(const Server& server);

}  // namespace plimsoll::inference
