// SPDX-License-Identifier: Apache-2.0
// What backward computes again. Megatron names modules and counts layers; the others checkpoint layers.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "lever/proposers.h"

namespace plimsoll::lever {

namespace {

using job::RecomputeGranularity;

bool has_dense_layer(const model::Architecture& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(),
                     [](const model::Layer& layer) { return !layer.ffn.is_moe(); });
}

// Modules that are recomputed today.
std::vector<std::string> recomputed(const job::Recompute& recompute) {
  std::vector<std::string> names;
  if (recompute.granularity != RecomputeGranularity::kSelective) return names;
  const job::RecomputeModules& m = recompute.modules;
  for (const auto& [on, name] :
       {std::pair{m.core_attn, "core_attn"}, std::pair{m.layernorm, "layernorm"},
        std::pair{m.mla_up_proj, "mla_up_proj"}, std::pair{m.mlp, "mlp"}, std::pair{m.moe, "moe"},
        std::pair{m.moe_act, "moe_act"}, std::pair{m.shared_experts, "shared_experts"}})
    if (on) names.emplace_back(name);
  return names;
}

// One more module beside those of today.
void propose_module(const job::Job& job, const char* module, Proposals& proposals) {
  if (!job.is_megatron() || job.recompute.granularity == RecomputeGranularity::kFull) return;
  std::vector<std::string> names = recomputed(job.recompute);
  if (std::find(names.begin(), names.end(), module) != names.end()) return;
  names.emplace_back(module);
  proposals.add(fmt::format("recompute {}", module),
                {{"recompute_granularity", "selective"}, {"recompute_modules", fmt::format("[{}]", join(names, ","))}});
}

void propose_layers(std::string label, const char* method, std::int64_t layers, Proposals& proposals) {
  proposals.add(std::move(label), {{"recompute_granularity", "full"},
                                   {"recompute_method", method},
                                   {"recompute_num_layers", std::to_string(layers)},
                                   {"recompute_modules", "[]"}});
}

}  // namespace

void recompute_attention(const job::Job& job, Proposals& proposals) {
  if (job.kernels.attention == job::AttentionBackend::kUnfused) propose_module(job, "core_attn", proposals);
}

void recompute_up_projection(const job::Job& job, Proposals& proposals) {
  if (job.is_megatron() && job.model.kinds.front().attention.kind == model::AttentionKind::kMla)
    propose_module(job, "mla_up_proj", proposals);
}

void recompute_moe_act(const job::Job& job, Proposals& proposals) {
  if (job.model.has_moe()) propose_module(job, "moe_act", proposals);
}

void recompute_mlp(const job::Job& job, Proposals& proposals) {
  if (has_dense_layer(job.model)) propose_module(job, "mlp", proposals);
}

void recompute_moe(const job::Job& job, Proposals& proposals) {
  if (job.model.has_moe()) propose_module(job, "moe", proposals);
}

void recompute_some_layers(const job::Job& job, Proposals& proposals) {
  if (!job.is_megatron() || job.recompute.granularity == RecomputeGranularity::kFull) return;
  // Layers of one model chunk: what recompute_num_layers counts with the method block.
  const std::int64_t layers = job.model.depth() / (job.parallel.pipeline * job.parallel.virtual_pipeline);
  const auto propose = [&](std::int64_t some) {
    propose_layers(fmt::format("recompute {} of {} layers", some, layers), "block", some, proposals);
  };
  if (layers > 3) propose(layers / 4);
  if (layers > 1) propose(layers / 2);
}

void recompute_layers(const job::Job& job, Proposals& proposals) {
  const bool is_full = job.recompute.granularity == RecomputeGranularity::kFull;
  if (job.is_megatron()) {
    if (!is_full) propose_layers("recompute whole layers", "uniform", 1, proposals);
    return;
  }
  if (!is_full) proposals.add("gradient checkpointing", {{"gradient_checkpointing", "true"}});
  if (is_full && job.recompute.every_nth_layer > 1)
    proposals.add("recompute every layer", {{"recompute_every_nth_layer", "0"}});
}

}  // namespace plimsoll::lever
