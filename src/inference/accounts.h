// SPDX-License-Identifier: Apache-2.0
// The accounts of the two engines over one pipeline stage. memory.cpp asks for each stage and keeps the one with the
// fewest blocks, since a server has as many as its poorest GPU.
#pragma once

#include <cstdint>
#include <optional>

#include "inference/memory.h"
#include "inference/server.h"

namespace plimsoll::inference {

struct Stage {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool is_last = false;
};

// `server` is resolved. Fill everything but notes and the final "free" row.
[[nodiscard]] ServerMemory vllm_account(const Server& server, const Stage& stage);
[[nodiscard]] ServerMemory sglang_account(const Server& server, const Stage& stage);

// Requests that SGLang runs at once, from the size of its cache where max_running_requests was not given.
[[nodiscard]] std::int64_t sglang_requests(const ServerMemory& memory, std::optional<std::int64_t> given);

}  // namespace plimsoll::inference
