// SPDX-License-Identifier: Apache-2.0
// How logs show FSDP, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kMarks[] = {"/fsdp/", "_fsdp"};

constexpr RungLine kLines[] = {
    {"offload-optimizer", "fully_shard(..., offload_policy=CPUOffloadPolicy())"},
    {"state-dict-on-host", "FullStateDictConfig(offload_to_cpu=True, rank0_only=True)"},
};

}  // namespace

constinit const Speaker fsdp2_speaker = {
    .name = "FSDP",
    .marks = kMarks,
    .lines = kLines,
    .precedence = 3,
};

}  // namespace plimsoll::why
