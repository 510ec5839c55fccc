// SPDX-License-Identifier: Apache-2.0
// Does a captured step fit a GPU: one capture as it ran, or several of other sizes for any size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "capture/answer.h"
#include "cluster/cluster.h"

namespace plimsoll::answer {

// Whether the operands are captures: all of them, or none.
[[nodiscard]] Result<bool> are_captures(const std::vector<std::string>& paths);

// Whether this file is one.
[[nodiscard]] bool is_captured(const std::string& path);

// Compute capability times ten of a GPU, by which PyTorch chooses kernels; Hopper's for GPUs without one.
[[nodiscard]] Result<int> capability_of(const std::string& gpu);

struct CapturedQuestion {
  std::vector<std::string> paths;
  std::string gpu;
  std::string allocator;                    // PYTORCH_CUDA_ALLOC_CONF
  std::optional<std::int64_t> micro_batch;  // as captured where absent
  std::optional<std::int64_t> seq_length;
  std::int64_t accumulation = 1;  // micro-batches of a step
};

struct Captured {
  capture::Capture step;
  cluster::Gpu gpu;
  capture::Answer answer;
};

[[nodiscard]] Result<Captured> fit_captured(const CapturedQuestion& question);
[[nodiscard]] std::string to_json(const Captured& captured);

}  // namespace plimsoll::answer
