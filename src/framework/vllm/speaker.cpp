// SPDX-License-Identifier: Apache-2.0
// How logs show vLLM, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kVllmMarks[] = {"vllm"};

constexpr RungLine kVllmLines[] = {
    {"micro-batch", ""},
    {"smaller-batch", "--max-num-batched-tokens 2048 --max-num-seqs 64"},
    {"recompute-layers", ""},
    {"adam-8bit", ""},
    {"shard-everything", "--tensor-parallel-size 2N"},
    {"offload-optimizer", ""},
    {"offload-weights", "--cpu-offload-gb N"},
    {"lower-precision-weights", "--dtype bfloat16"},
    {"quantise", "--quantization fp8  # or a quantised checkpoint"},
    {"lora", ""},
    {"sharded-load", "--tensor-parallel-size 2N"},
    {"load-lean", "--load-format safetensors --max-parallel-loading-workers 1"},
    {"graph-margin", "--gpu-memory-utilization 0.90"},
    {"fewer-graphs", "--compilation-config '{\"cudagraph_capture_sizes\": [1, 2, 4, 8, 16, 32]}'"},
    {"no-graphs", "--enforce-eager"},
    {"no-custom-all-reduce", "--disable-custom-all-reduce"},
};

}  // namespace

constinit const Speaker vllm_speaker = {
    .name = "vLLM",
    .marks = kVllmMarks,
    .lines = kVllmLines,
    .precedence = 10,
    .serves = true,
};

}  // namespace plimsoll::why
