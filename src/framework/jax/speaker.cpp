// SPDX-License-Identifier: Apache-2.0
// How logs show JAX, and what its users write for the rungs of the ladder.
#include "why/speaker.h"

namespace plimsoll::why {

namespace {

constexpr std::string_view kJaxMarks[] = {"jaxlib", "/jax/"};

constexpr RungLine kJaxLines[] = {
    {"raise-limit", "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.95"},
    {"recompute-layers", "jax.checkpoint(block)"},
    {"adam-8bit", ""},
    {"shard-everything", "shard parameters over the mesh: NamedSharding(mesh, P(\"fsdp\"))"},
    {"offload-optimizer", ""},
};

}  // namespace

constinit const Speaker jax_speaker = {
    .name = "JAX",
    .marks = kJaxMarks,
    .lines = kJaxLines,
    .precedence = 1,
    .is_compiled_whole = true,
};

}  // namespace plimsoll::why
