// SPDX-License-Identifier: Apache-2.0
// Writes a synthetic memory snapshot of any length, the same bytes for the same options: a training loop with
// sequences of random length on PyTorch's caching allocator (one stream, default settings), written as Python's
// pickle writes it. Memory stays bounded: the loop runs once for the final segments, which stand first in the
// file, and once more for the events.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace plimsoll::bench {

struct SyntheticOptions {
  std::uint64_t events = 500000;
  std::uint64_t seed = 1;
  int layers = 24;
  bool has_stacks = true;
};

struct SyntheticFile {
  std::uint64_t bytes = 0;
  std::uint64_t events = 0;
  std::uint64_t segments = 0;
};

[[nodiscard]] Result<SyntheticFile> write_synthetic(const std::string& path, const SyntheticOptions& options);

}  // namespace plimsoll::bench
