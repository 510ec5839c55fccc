// SPDX-License-Identifier: Apache-2.0
// How logs show SGLang, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kSglangMarks[] = {"sglang"};

constexpr RungLine kSglangLines[] = {
    {"micro-batch", ""},
    {"smaller-batch", "--chunked-prefill-size 2048 --max-running-requests 64"},
    {"recompute-layers", ""},
    {"shard-everything", "--tp-size 2N"},
    {"quantise", "--quantization fp8"},
    {"graph-margin", "--mem-fraction-static 0.80"},
    {"fewer-graphs", "--cuda-graph-max-bs 32"},
    {"no-graphs", "--disable-cuda-graph"},
    {"shorter-context", "--context-length N"},
    {"engine-share", "--mem-fraction-static 0.90"},
    {"engine-share-less", "--mem-fraction-static N"},
    {"engine-shard", "--tp-size 2N"},
    {"kv-fp8", "--kv-cache-dtype fp8_e5m2"},
    {"no-custom-all-reduce", "--disable-custom-all-reduce"},
    {"engine-headroom", "--mem-fraction-static 0.8 --chunked-prefill-size 2048"},
};

}  // namespace

constinit const Speaker sglang_speaker = {
    .name = "SGLang",
    .marks = kSglangMarks,
    .lines = kSglangLines,
    .precedence = 9,
    .serves = true,
};

}  // namespace plimsoll::why
