// SPDX-License-Identifier: Apache-2.0
// Megatron's hybrid models (HybridModel, once MambaModel): every layer is a Mamba-2 mixer, attention, an MLP or
// experts alone, behind one norm (facts megatron-memory.md 2.8).
#pragma once

#include "job/hybrid_pattern.h"
#include "job/model_keys.h"

namespace plimsoll::job {

struct Job;

// What the keys say of the layers, ratios and a separate pattern of the MTP depths included.
[[nodiscard]] Result<HybridPattern> hybrid_pattern_of(const ModelKeys& keys);

// Gives `model` the layers of the keys' pattern. `attends` has the attention and the dense MLP, `moe` the experts;
// moe.experts == 0: the keys give none.
[[nodiscard]] Status make_hybrid(const ModelKeys& keys, const model::Layer& attends, const model::FeedForward& moe,
                                 model::Architecture& model);

// Whether the layers are what Megatron's HybridModel builds.
[[nodiscard]] bool is_hybrid(const model::Architecture& model);
// Experts in layers of their own, which are modelled as Megatron runs them alone.
[[nodiscard]] bool routes_alone(const model::Architecture& model);

// The pattern of such a model, with its MTP depths and without pipeline segments.
[[nodiscard]] std::string pattern_of(const model::Architecture& model);

// A pipeline of hybrid layers is cut at the '|' of the pattern: writes that down as a layout.
[[nodiscard]] Status derive_hybrid_stages(Job& job);

// What the mixers allow: heads and groups that tensor and context parallelism divide.
[[nodiscard]] Status check_mixer(const Job& job, const model::StateSpace& mixer);

}  // namespace plimsoll::job
