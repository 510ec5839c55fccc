// SPDX-License-Identifier: Apache-2.0
// How logs show torchtitan, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kTorchtitanMarks[] = {"torchtitan"};

constexpr RungLine kTorchtitanLines[] = {
    {"micro-batch", "[training] local_batch_size = N/2  # global_batch_size stays"},
    {"recompute-layers", "[activation_checkpoint] mode = \"full\""},
    {"shard-everything", "[parallelism] data_parallel_shard_degree = -1"},
    {"offload-optimizer", "[training] enable_cpu_offload = true"},
};

}  // namespace

constinit const Speaker torchtitan_speaker = {
    .name = "torchtitan",
    .marks = kTorchtitanMarks,
    .lines = kTorchtitanLines,
    .precedence = 6,
};

}  // namespace plimsoll::why
