// SPDX-License-Identifier: Apache-2.0
// How an engine cuts the cache of one GPU into blocks. All layers of one kind that hold the same tokens share a block
// table; a model with several kinds (full, window, linear) is cut into groups of equally many layers, so that one
// block is the same number of bytes in each:
//   30 layers, 5 window : 1 full, 5 full and 25 window -> groups of 5: 1 full group, 5 window groups;
//   a request takes blocks from each of the 6, the window groups only for the window.
#pragma once

#include <cstdint>
#include <vector>

#include "inference/server.h"

namespace plimsoll::inference {

enum class CacheKind : std::uint8_t {
  kFull,    // every token
  kWindow,  // the last `window` tokens
  kState,   // one state per request (linear attention)
};

struct CacheGroup {
  CacheKind kind = CacheKind::kFull;
  std::int64_t window = 0;
  std::int64_t count = 0;  // groups of this kind
};

// The cache of the layers of one pipeline stage on one GPU.
struct CacheLayout {
  std::int64_t block_size = 0;       // tokens
  std::int64_t bytes_per_block = 0;  // one block of one group
  std::vector<CacheGroup> groups;

  // In all groups, for one request of `tokens` while at most `in_flight` tokens are being computed.
  [[nodiscard]] std::int64_t blocks_per_request(std::int64_t tokens, std::int64_t in_flight) const;
  [[nodiscard]] std::int64_t group_count() const;
};

// Bytes per element of the cache without scales.
[[nodiscard]] double kv_element_bytes(const Server& server);
// Of one token in one attention layer of one GPU, with scales; 0 for linear attention.
[[nodiscard]] std::int64_t layer_bytes_per_token(const Server& server, const model::Attention& attention);
// Of one request in one layer of linear attention on one GPU.
[[nodiscard]] std::int64_t layer_state_bytes(const Server& server, const model::Attention& attention);

// vLLM raises the block of a model with linear attention until a page of attention holds a state.
[[nodiscard]] std::int64_t attention_block_size(const Server& server, std::int64_t wanted);

[[nodiscard]] CacheLayout cache_layout(const Server& server, std::int64_t block_size, std::int64_t first,
                                       std::int64_t count);

}  // namespace plimsoll::inference
