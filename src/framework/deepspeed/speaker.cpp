// SPDX-License-Identifier: Apache-2.0
// How logs show DeepSpeed, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kDeepspeedMarks[] = {"deepspeed"};

constexpr RungLine kDeepspeedLines[] = {
    {"micro-batch", "\"train_micro_batch_size_per_gpu\": N/2, \"gradient_accumulation_steps\": 2*M"},
    {"bf16", "\"bf16\": {\"enabled\": true}"},
    {"recompute-layers", "model.gradient_checkpointing_enable()"},
    {"shard-optimizer", "\"zero_optimization\": {\"stage\": 1}"},
    {"shard-everything", "\"zero_optimization\": {\"stage\": 3}"},
    {"offload-optimizer", "\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}"},
    {"offload-weights", "\"offload_param\": {\"device\": \"cpu\"}  # with stage 3"},
    {"state-dict-on-host", "\"stage3_gather_16bit_weights_on_model_save\": false  # then zero_to_fp32.py on the host"},
    {"sharded-load", "with deepspeed.zero.Init(): ...  # stage 3"},
    {"less-offload", "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"/local\"}  # or \"none\""},
    {"no-pinning", "\"offload_optimizer\": {\"pin_memory\": false}  # or ulimit -l unlimited"},
};

}  // namespace

constinit const Speaker deepspeed_speaker = {
    .name = "DeepSpeed",
    .marks = kDeepspeedMarks,
    .lines = kDeepspeedLines,
    .precedence = 5,
};

}  // namespace plimsoll::why
