// SPDX-License-Identifier: Apache-2.0
// How logs show Lightning, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kLightningMarks[] = {"lightning"};

constexpr RungLine kLightningLines[] = {
    {"micro-batch", "DataLoader(batch_size=N/2), Trainer(accumulate_grad_batches=2*M)"},
    {"bf16", "Trainer(precision=\"bf16-mixed\")"},
    {"shard-everything", "Trainer(strategy=\"fsdp\")"},
};

}  // namespace

constinit const Speaker lightning_speaker = {
    .name = "Lightning",
    .marks = kLightningMarks,
    .lines = kLightningLines,
    .precedence = 2,
};

}  // namespace plimsoll::why
