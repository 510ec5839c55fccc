// SPDX-License-Identifier: Apache-2.0
// How logs show FSDP, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kFsdp2Marks[] = {"/fsdp/", "_fsdp"};

constexpr RungLine kFsdp2Lines[] = {
    {"offload-optimizer", "fully_shard(..., offload_policy=CPUOffloadPolicy())"},
    {"state-dict-on-host", "FullStateDictConfig(offload_to_cpu=True, rank0_only=True)"},
};

}  // namespace

constinit const Speaker fsdp2_speaker = {
    .name = "FSDP",
    .marks = kFsdp2Marks,
    .lines = kFsdp2Lines,
    .precedence = 3,
};

}  // namespace plimsoll::why
