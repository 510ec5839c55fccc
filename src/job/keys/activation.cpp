// SPDX-License-Identifier: Apache-2.0
// Keys that decide what is kept between forward and backward: recompute, offload, experts and kernels.
#include <fmt/format.h>

#include "base/text.h"
#include "job/keys/table.h"

namespace plimsoll::job {

namespace {

using enum Moves;

using document::Node;

template <class Modules>
struct Module {
  std::string_view name;
  bool Modules::* member;
};
constexpr Module<RecomputeModules> kRecomputeModules[] = {
    {"core_attn", &RecomputeModules::core_attn},
    {"layernorm", &RecomputeModules::layernorm},
    {"mla_up_proj", &RecomputeModules::mla_up_proj},
    {"mlp", &RecomputeModules::mlp},
    {"moe", &RecomputeModules::moe},
    {"moe_act", &RecomputeModules::moe_act},
    {"shared_experts", &RecomputeModules::shared_experts},
};
constexpr Module<OffloadModules> kOffloadModules[] = {
    {"attn_norm", &OffloadModules::attn_norm}, {"qkv_linear", &OffloadModules::qkv_linear},
    {"core_attn", &OffloadModules::core_attn}, {"attn_proj", &OffloadModules::attn_proj},
    {"mlp_norm", &OffloadModules::mlp_norm},   {"expert_fc1", &OffloadModules::expert_fc1},
    {"moe_act", &OffloadModules::moe_act},     {"fused_group_mlp", &OffloadModules::fused_group_mlp},
};

template <class Modules, std::size_t kCount>
Status set_modules(Modules& modules, const Module<Modules> (&table)[kCount], std::string_view key, const Node& value) {
  PLIMSOLL_TRY(words, to_words(value));
  Modules chosen;
  for (const std::string& word : words) {
    bool known = false;
    std::vector<std::string> names;
    for (const Module<Modules>& row : table) {
      names.emplace_back(row.name);
      if (word != row.name) continue;
      chosen.*row.member = true;
      known = true;
    }
    if (!known) return bad_input(fmt::format("Invalid choices for {}: '{}', wanted {}", key, word, join(names, ", ")));
  }
  modules = chosen;
  return {};
}

Status set_recompute_modules(Job& job, const Node& value) {
  return set_modules(job.recompute.modules, kRecomputeModules, "recompute_modules", value);
}
Status set_offload_modules(Job& job, const Node& value) {
  return set_modules(job.offload.modules, kOffloadModules, "offload_modules", value);
}

// Megatron-LM's short form of selective recompute with the default module.
Status set_recompute_activations(Job& job, const Node& value) {
  PLIMSOLL_TRY(on, to_bool(value));
  if (!on) return {};
  job.recompute.granularity = RecomputeGranularity::kSelective;
  job.given.insert("recompute_granularity");
  return {};
}

// Transformers checkpoints every decoder layer: full recompute in runs of one layer.
Status set_gradient_checkpointing(Job& job, const Node& value) {
  PLIMSOLL_TRY(on, to_bool(value));
  job.recompute = Recompute{};
  if (on) job.recompute.granularity = RecomputeGranularity::kFull;
  for (const char* key : {"recompute_granularity", "recompute_method", "recompute_num_layers"}) job.given.insert(key);
  return {};
}

Status set_budget(Job& job, const Node& value) {
  PLIMSOLL_TRY(budget, to_real(value, kFraction));
  job.recompute.memory_budget = budget;
  return {};
}

Status set_dispatcher(Job& job, const Node& value) {
  PLIMSOLL_TRY(word, to_word(value));
  if (word == "flex") {
    job.asked.flex_dispatcher = true;
    return {};
  }
  const auto kind = from_name<DispatcherKind>(word);
  if (!kind) return bad_input(fmt::format("found {}, wanted flex, {}", shown(value), choices<DispatcherKind>()));
  job.asked.flex_dispatcher = false;
  job.moe.dispatcher = *kind;
  return {};
}

Status set_deepep(Job& job, const Node& value) {
  PLIMSOLL_TRY(on, to_bool(value));
  if (on) job.asked.flex_backend = DispatcherKind::kDeepEp;
  return {};
}

Status set_router_dtype(Job& job, const Node& value) {
  PLIMSOLL_TRY(word, to_word(value));
  if (word != "fp32" && word != "fp64" && word != "none")
    return bad_input(fmt::format("found {}, wanted fp32, fp64 or none", shown(value)));
  job.moe.router_fp32 = word != "none";
  return {};
}

// "auto" leaves the choice to complete(): by GPU, as Transformer Engine does.
Status set_attention(Job& job, const Node& value) {
  PLIMSOLL_TRY(path, to_word(value));
  const std::string word = lower(split(path, '.').back());
  if (word == "auto") {
    job.given.erase("attention_backend");
    return {};
  }
  const auto backend = from_name<AttentionBackend>(word);
  if (!backend) return bad_input(fmt::format("found {}, wanted auto, {}", shown(value), choices<AttentionBackend>()));
  job.kernels.attention = *backend;
  return {};
}

Status set_use_flash(Job& job, const Node& value) {
  PLIMSOLL_TRY(on, to_bool(value));
  if (!on) return {};
  job.kernels.attention = AttentionBackend::kFlash;
  job.given.insert("attention_backend");
  return {};
}

const Key kRecomputeKeys[] = {
    {"recompute_granularity", kBoth, PLIMSOLL_FIELD(recompute.granularity), "what is recomputed in backward"},
    {"recompute_method", kBoth, PLIMSOLL_FIELD(recompute.method),
     "full: uniform runs, or the first layers of each chunk"},
    {"recompute_num_layers", kBoth, PLIMSOLL_FIELD(recompute.num_layers),
     "full: layers of a run, or how many at the start"},
    {"recompute_modules", kBoth,
     Custom{set_recompute_modules, "list of core_attn, layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts"},
     "selective: which modules"},
    {"recompute_activations", kBoth, Custom{set_recompute_activations, "boolean"}, "selective recompute of core_attn"},
    {"distribute_saved_activations", kBytes, PLIMSOLL_FIELD(recompute.distribute_saved),
     "kept inputs are split over TP"},
    {"gradient_checkpointing", kBoth, Custom{set_gradient_checkpointing, "boolean"},
     "every layer is recomputed (Transformers)"},
    {"recompute_every_nth_layer", kBoth, PLIMSOLL_FIELD(recompute.every_nth_layer), "torchtitan: only every n-th layer",
     Range{0, 100'000}},
    {"activation_memory_budget", kBytes, Custom{set_budget, "number"}, "torchtitan: 0 recomputes all, 1 nothing"},
};

const Key kOffloadKeys[] = {
    {"cpu_offloading", kBoth, PLIMSOLL_FIELD(offload.activations), "activations of the first layers move to the host"},
    {"cpu_offloading_num_layers", kBoth, PLIMSOLL_FIELD(offload.activation_layers), "how many layers", kSizeOrZero},
    {"cpu_offloading_weights", kNeither, PLIMSOLL_FIELD(offload.weights),
     "their weights move too; not modelled: a warning and a wider interval"},
    {"cpu_offloading_double_buffering", kBytes, PLIMSOLL_FIELD(offload.double_buffering),
     "two persistent reload buffers"},
    {"fine_grained_activation_offloading", kBoth, PLIMSOLL_FIELD(offload.fine_grained),
     "inputs of offload_modules move to the host"},
    {"offload_modules", kBoth,
     Custom{set_offload_modules,
            "list of attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, expert_fc1, moe_act, fused_group_mlp"},
     "which modules"},
    {"activation_offload_fraction", kBoth, PLIMSOLL_FIELD(offload.fraction), "share of the groups that moves",
     kFraction},
    {"min_offloaded_tensor_size", kBytes, PLIMSOLL_FIELD(offload.min_tensor_elements), "smaller tensors stay",
     kSizeOrZero},
    {"offload_checkpointed_inputs", kNeither, PLIMSOLL_FIELD(offload.checkpointed_inputs),
     "what backward needs is saved on the host (TRL activation_offloading); not modelled: a warning and a wider "
     "interval"},
};

const Key kMoeKeys[] = {
    {"moe_imbalance", kBoth, PLIMSOLL_FIELD(moe.imbalance),
     "routed tokens on the fullest rank over the balanced number", Range{1, 65536}},
    {"moe_grouped_gemm", kBoth, PLIMSOLL_FIELD(moe.grouped_gemm), "local experts run as one grouped GEMM"},
    {"moe_token_dispatcher_type", kBoth, Custom{set_dispatcher, "allgather, alltoall, flex, deepep, hybridep"},
     "how tokens reach their experts"},
    {"moe_flex_dispatcher_backend", kNeither, PLIMSOLL_FIELD(asked.flex_backend),
     "flex: the library; DeepEP and HybridEP are counted alike"},
    {"moe_enable_deepep", kBoth, Custom{set_deepep, "boolean"}, "flex: DeepEP"},
    {"moe_permute_fusion", kBoth, PLIMSOLL_FIELD(moe.permute_fusion), "tokens are permuted by a fused kernel"},
    {"moe_expert_capacity_factor", kBoth, PLIMSOLL_FIELD(moe.capacity_factor),
     "tokens an expert accepts over the balanced number", Range{-1, 65536}},
    {"moe_pad_expert_input_to_capacity", kBytes, PLIMSOLL_FIELD(moe.pad_to_capacity), "experts always get that many"},
    {"moe_router_dtype", kBytes, Custom{set_router_dtype, "fp32, fp64, none"}, "dtype of routing"},
};

const Key kKernelKeys[] = {
    {"transformer_impl", kBoth, PLIMSOLL_FIELD(kernels.implementation), "whose modules run"},
    {"attention_backend", kBoth, Custom{set_attention, "auto, flash, fused, unfused"}, "attention kernel"},
    {"use_flash_attn", kBoth, Custom{set_use_flash, "boolean"}, "the same as attention_backend flash"},
    {"apply_rope_fusion", kBoth, PLIMSOLL_FIELD(kernels.rope_fusion), "rotary embedding is one kernel"},
    {"bias_activation_fusion", kBoth, PLIMSOLL_FIELD(kernels.bias_activation_fusion),
     "bias and activation are one kernel"},
    {"bias_gelu_fusion", kBytes, PLIMSOLL_FIELD(asked.bias_gelu_fusion),
     "Megatron-LM: bias_activation_fusion of a GELU MLP"},
    {"use_fused_weighted_squared_relu", kBytes, PLIMSOLL_FIELD(kernels.weighted_squared_relu_fusion),
     "experts' squared ReLU and the routing probability are one kernel"},
    {"bias_swiglu_fusion", kBoth, PLIMSOLL_FIELD(asked.bias_swiglu_fusion),
     "Megatron-LM: bias_activation_fusion of a SwiGLU MLP"},
    {"bias_dropout_fusion", kBytes, PLIMSOLL_FIELD(kernels.bias_dropout_fusion),
     "bias, dropout and add are one compiled kernel"},
    {"gradient_accumulation_fusion", kBoth, PLIMSOLL_FIELD(kernels.gradient_accumulation_fusion),
     "weight gradients are added into the buffer by the GEMM"},
    {"masked_softmax_fusion", kBytes, PLIMSOLL_FIELD(kernels.masked_softmax_fusion),
     "scale, mask and softmax are one kernel; without it a softmax in fp32 is kept in fp32"},
    {"attention_softmax_in_fp32", kBytes, PLIMSOLL_FIELD(kernels.softmax_in_fp32),
     "Megatron's own unfused attention: softmax in fp32"},
    {"apply_query_key_layer_scaling", kBytes, PLIMSOLL_FIELD(kernels.scales_queries_by_layer),
     "the same, and scores are divided by the layer's number"},
    {"create_attention_mask_in_dataloader", kBytes, PLIMSOLL_FIELD(kernels.mask_in_dataloader),
     "a dense mask is on the GPU"},
    {"cross_entropy_loss_fusion", kBoth, PLIMSOLL_FIELD(asked.loss_fusion), "the loss is fused"},
    {"cross_entropy_fusion_impl", kBoth, PLIMSOLL_FIELD(asked.loss_fusion_impl), "by whom: native or te"},
    {"loss", kBoth, PLIMSOLL_FIELD(kernels.loss), "how the loss is computed"},
    {"loss_chunks", kBytes, PLIMSOLL_FIELD(kernels.loss_chunks), "chunks of the chunked loss", Range{1, 1 << 20}},
    {"logit_dtype", kBytes, PLIMSOLL_FIELD(kernels.logits), "dtype of logits"},
    {"calculate_per_token_loss", kNeither, PLIMSOLL_FIELD(kernels.calculate_per_token_loss),
     "the loss is averaged per token; for rules and launches: one number per step"},
    {"use_liger_kernel", kBoth, PLIMSOLL_FIELD(kernels.liger), "Liger kernels"},
    {"torch_compile", kBoth, PLIMSOLL_FIELD(kernels.torch_compile), "the model is compiled"},
    {"cuda_graph_impl", kBoth, PLIMSOLL_FIELD(kernels.cuda_graphs), "what is captured in CUDA graphs"},
    {"cuda_graph_modules", kSeconds, PLIMSOLL_FIELD(kernels.cuda_graph_modules), "per layer: which modules"},
    {"keeps_outputs", kBoth, PLIMSOLL_FIELD(kernels.keeps_outputs),
     "the training loop holds the logits through backward"},
    {"torch_empty_cache_steps", kBytes, PLIMSOLL_FIELD(kernels.empty_cache_steps),
     "Trainer: every n-th step, the first among them, gives cached memory back between forward and backward; 0: none",
     Range{0, 1 << 30}},
    {"own_loop", kBytes, PLIMSOLL_FIELD(kernels.own_loop),
     "a loop of your own in place of the Trainer, which empties the cache before it trains"},
    {"label_smoothing_factor", kBoth, PLIMSOLL_FIELD(kernels.label_smoothing),
     "Trainer: share of the loss that is spread over all words; the loss is computed outside the model", kFraction},
    {"neftune_noise_alpha", kBoth, PLIMSOLL_FIELD(kernels.embedding_noise), "noise on the embedding output (NEFTune)",
     Range{0, 1e6}},
};

}  // namespace

std::span<const Key> recompute_key_rows() { return kRecomputeKeys; }
std::span<const Key> offload_key_rows() { return kOffloadKeys; }
std::span<const Key> moe_key_rows() { return kMoeKeys; }
std::span<const Key> kernel_key_rows() { return kKernelKeys; }

}  // namespace plimsoll::job
