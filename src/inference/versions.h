// SPDX-License-Identifier: Apache-2.0
// The releases of vLLM in which its account of memory changed, read in the tags of its repository. What a release
// does is asked by these names only.
#pragma once

#include "inference/server.h"

namespace plimsoll::inference {

// Before it, memory outside PyTorch that was there before the profile run counted as the server's own (pull request
// 12126 changed that).
inline constexpr Version kChargesOnlyItsGrowth{0, 7, 0};
// The engine "V1": chunked prefill by default, scheduler defaults by device memory.
inline constexpr Version kV1{0, 8, 0};
// Layers with windows or states have block tables of their own.
inline constexpr Version kHybridCache{0, 9, 2};
// Full graphs for decode batches beside piecewise ones (FULL_AND_PIECEWISE).
inline constexpr Version kFullGraphs{0, 11, 0};
// top-k and top-p in one Triton kernel; before, a sort of all logits.
inline constexpr Version kTritonSampler{0, 17, 0};
// Groups of layers are padded to the largest below a ratio of 1.5 instead of 1.25.
inline constexpr Version kWiderGroups{0, 18, 0};
// Graphs are charged to the budget and the default utilisation is 0.92. Its log says v0.21, the tag v0.20.0 already
// does both (facts rl-and-inference.md 4).
inline constexpr Version kChargesGraphs{0, 20, 0};
// "GPU KV cache size" is concurrency x max_model_len instead of blocks x block size.
inline constexpr Version kLogsConcurrencyTokens{0, 21, 0};
// "model's" instead of "models's" in the error about max_model_len.
inline constexpr Version kNewWording{0, 23, 0};
// Larger scheduler defaults for GPUs of 160 GiB and more.
inline constexpr Version kLargeGpuDefaults{0, 28, 0};

}  // namespace plimsoll::inference
