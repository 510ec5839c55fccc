// SPDX-License-Identifier: Apache-2.0
// What frameworks derive from what they are given. Every rule writes only derived fields and reads only
// given ones, so completing a job twice, or again after a key changed, gives the same as completing it once.
#include "job/derive.h"

#include <algorithm>

#include <fmt/format.h>

#include "job/hybrid_model.h"
#include "job/keys.h"
#include "job/pipeline_layout.h"
#include "job/refusal.h"
#include "model/catalog.h"

namespace plimsoll::job {

namespace {

bool any_given(const Job& job, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (job.has(key)) return true;
  return false;
}

}  // namespace

std::optional<DType> half_precision(const Job& job) {
  if (job.asked.bf16) return DType::kBf16;
  if (job.asked.fp16) return DType::kFp16;
  return std::nullopt;
}

void use_precision(Job& job, DType params, DType compute) {
  if (!job.has("params_dtype")) job.precision.params = params;
  if (!job.has("compute_dtype")) job.precision.compute = compute;
}

void train_in_half(Job& job) {
  const DType type = half_precision(job).value_or(DType::kFp32);
  use_precision(job, type, type);
}

namespace {

Status derive_precision(Job& job) {
  Precision& precision = job.precision;
  if (!job.derives && !any_given(job, {"bf16", "fp16", "fp8", "fp8_recipe", "load_dtype"})) return {};
  if (job.has("fp16") && job.asked.fp16 && !job.has("bf16")) job.asked.bf16 = false;  // Bridge's default is bf16
  if (job.asked.bf16 && job.asked.fp16) return bad_input(std::string(job.facts().two_halves), "drop one of them");
  if (job.facts().derive_precision != nullptr) job.facts().derive_precision(job);
  if (job.asked.fp8 && job.asked.fp8_recipe == Fp8Recipe::kNone)
    return bad_input("fp8 is on and fp8_recipe is none", "choose a recipe: delayed, tensorwise, blockwise or mxfp8");
  // Megatron's own modules stay in the dtype of their weights whatever the recipe (rules.md S022).
  const bool has_fp8_modules = !job.is_megatron() || job.kernels.implementation != Implementation::kLocal;
  precision.fp8 = job.asked.fp8 && has_fp8_modules ? job.asked.fp8_recipe : Fp8Recipe::kNone;
  if (job.has("fp8_recipe") && !job.asked.fp8 && !job.has("fp8") && !job.facts().fp8_switch.empty())
    warn(job, fmt::format("fp8_recipe: has no effect, because fp8 is not on ({})", job.facts().fp8_switch));
  return {};
}

// bf16 forces fp32 gradients in Megatron-LM unless told otherwise (facts megatron-memory.md 3.1).
void derive_gradients(Job& job) {
  Optimizer& optimizer = job.optimizer;
  if (job.has("main_grads_dtype") && optimizer.precision_aware) {
    optimizer.grad_reduce_in_fp32 = optimizer.main_grads == DType::kFp32;
  } else if (job.derives && job.facts().reduces_in_fp32 && !job.has("grad_reduce_in_fp32")) {
    optimizer.grad_reduce_in_fp32 = job.precision.params != DType::kFp16;
  }
  if (any_given(job, {"optimizer_cpu_offload", "optimizer_offload_fraction"}))
    optimizer.cpu_offload_fraction = job.asked.optimizer_cpu_offload ? job.asked.optimizer_offload_fraction : 0;
}

bool switched_off(const Job& job, const char* variable) {
  const auto found = job.environment.find(variable);
  return found != job.environment.end() && found->second == "0";
}

// Transformer Engine picks cuDNN on Hopper and newer and FlashAttention before (facts megatron-memory.md 4.1,
// row 5). On Blackwell cuDNN's backward is not deterministic: the published GB200 figures of runs that
// forbid nondeterministic kernels hold FlashAttention's extra copy, the others do not. Neither runs in fp32, and
// Megatron's local implementation has only the unfused one.
AttentionBackend chosen_attention(const Job& job) {
  if (job.kernels.implementation == Implementation::kLocal || job.precision.compute == DType::kFp32)
    return AttentionBackend::kUnfused;
  const bool no_flash = switched_off(job, "NVTE_FLASH_ATTN");
  const bool no_fused = switched_off(job, "NVTE_FUSED_ATTN");
  if (no_flash && no_fused) return AttentionBackend::kUnfused;
  if (no_flash) return AttentionBackend::kFused;
  if (no_fused) return AttentionBackend::kFlash;
  if (!job.cluster.gpu.is_hopper_or_newer()) return AttentionBackend::kFlash;
  const bool deterministic = switched_off(job, "NVTE_ALLOW_NONDETERMINISTIC_ALGO");
  return job.cluster.gpu.is_blackwell() && deterministic ? AttentionBackend::kFlash : AttentionBackend::kFused;
}

void derive_kernels(Job& job) {
  Kernels& kernels = job.kernels;
  if (job.derives && job.is_megatron() && !job.has("attention_backend")) kernels.attention = chosen_attention(job);
  if (job.derives && job.facts().fuses_by_activation && !job.has("bias_activation_fusion")) {
    // GELU is fused with its bias only where there is one.
    const std::vector<model::Layer>& kinds = job.model.kinds;
    const auto with_mlp =
        std::find_if(kinds.begin(), kinds.end(), [](const model::Layer& kind) { return !kind.ffn.is_empty(); });
    const model::FeedForward& ffn = with_mlp == kinds.end() ? kinds.front().ffn : with_mlp->ffn;
    const bool swiglu = ffn.gated && ffn.activation == model::Activation::kSilu;
    kernels.bias_activation_fusion = swiglu ? job.asked.bias_swiglu_fusion : job.asked.bias_gelu_fusion && ffn.bias;
  }
  if (!job.has("loss")) {
    if (any_given(job, {"cross_entropy_loss_fusion", "cross_entropy_fusion_impl"}))
      kernels.loss = job.asked.loss_fusion ? job.asked.loss_fusion_impl : LossKind::kUnfused;
    if (kernels.liger) kernels.loss = LossKind::kLiger;
  }
  // "local" with the scope full_iteration is the graph of the whole iteration under its older name.
  const std::vector<std::string>& scopes = kernels.cuda_graph_modules;
  if (kernels.cuda_graphs == CudaGraphs::kPerLayer &&
      std::find(scopes.begin(), scopes.end(), "full_iteration") != scopes.end())
    kernels.cuda_graphs = CudaGraphs::kFullIteration;
  if (job.derives && !job.has("logit_dtype")) kernels.logits = job.precision.compute;
  if (job.asked.flex_dispatcher) job.moe.dispatcher = job.asked.flex_backend;
  if (job.moe.capacity_factor && *job.moe.capacity_factor < 0) job.moe.capacity_factor.reset();
}

void derive_recompute(Job& job) {
  const bool nothing_named = !job.has("recompute_modules");
  if (job.derives && job.is_megatron() && nothing_named)
    job.recompute.modules.core_attn = job.recompute.granularity == RecomputeGranularity::kSelective;
}

// Three ways to say how many chunks a pipeline rank has; more than one is a contradiction (R044, R055).
Status derive_virtual_stages(Job& job) {
  Parallel& parallel = job.parallel;
  const bool given = job.has("virtual_pipeline_model_parallel_size") && parallel.virtual_pipeline > 1;
  const int ways = (given ? 1 : 0) + (parallel.layers_per_virtual_stage ? 1 : 0) + (parallel.layout.empty() ? 0 : 1);
  if (!parallel.layout.empty()) {
    PLIMSOLL_TRY(total, layout_stages(parallel.layout));
    if (total % parallel.pipeline != 0) return refused("R054");
    if (parallel.layers_in_first_stage || parallel.layers_in_last_stage || parallel.account_for_embedding ||
        parallel.account_for_loss || parallel.layers_per_virtual_stage)
      return refused("R053");
    if (given && parallel.virtual_pipeline != total / parallel.pipeline) return refused("R055");
    parallel.virtual_pipeline = total / parallel.pipeline;
    return {};
  }
  if (ways > 1) return refused("R044");
  if (!parallel.layers_per_virtual_stage) return {};
  if (parallel.layers_in_first_stage || parallel.layers_in_last_stage) return refused("R045");
  const std::int64_t layers =
      job.model.depth() + (parallel.account_for_embedding ? 1 : 0) + (parallel.account_for_loss ? 1 : 0);
  if (layers % parallel.pipeline != 0) return refused("R035");
  const std::int64_t per_stage = layers / parallel.pipeline;
  if (per_stage % *parallel.layers_per_virtual_stage != 0) return refused("R037");
  parallel.virtual_pipeline = per_stage / *parallel.layers_per_virtual_stage;
  return {};
}

// Megatron's L2 norm of queries and keys has one switch for all layers; Llama 4 itself leaves out those that do not
// rotate.
void use_one_qk_norm(model::Architecture& model) {
  const bool weightless = std::any_of(model.kinds.begin(), model.kinds.end(), [](const model::Layer& kind) {
    return kind.attention.qk_norm != model::QkNorm::kNone && !kind.attention.qk_norm_has_weight;
  });
  if (!weightless) return;
  for (model::Layer& kind : model.kinds) {
    kind.attention.qk_norm = model::QkNorm::kPerHead;
    kind.attention.qk_norm_has_weight = false;
  }
}

Status derive_model(Job& job) {
  if (job.model_keys.any) {
    PLIMSOLL_TRY(model, architecture_of(job.model_keys, job.base_model));
    job.model = std::move(model);
  } else if (job.model.layers.empty()) {
    job.model = job.base_model;
  }
  if (job.model.layers.empty())
    return bad_input("no model is given", "name one (--model llama3-8b), or give its config.json");
  if (job.is_megatron()) use_one_qk_norm(job.model);
  return model::validate(job.model);
}

// The teacher of a distillation by its name, or by that of the model that it was made from.
Status find_teacher(Job& job) {
  if (job.teacher_model.empty()) {
    job.teacher = nullptr;
    return {};
  }
  if (job.teacher != nullptr && job.teacher->name == job.teacher_model) return {};
  auto found = model::find_model(job.teacher_model);
  if (!found)
    if (const std::string ancestor = model::ancestor_in_name(job.teacher_model); !ancestor.empty())
      found = model::find_model(ancestor);
  if (!found)
    return bad_input(fmt::format("teacher_model: {} is not in the catalogue", job.teacher_model),
                     "name one that has its sizes with --teacher-model llama3-8b, say");
  found->name = job.teacher_model;
  job.teacher = std::make_shared<const model::Architecture>(std::move(*found));
  return {};
}

}  // namespace

Status derive(Job& job, ModelOfJob model) {
  if (model == ModelOfJob::kGiven) {
    PLIMSOLL_TRY_STATUS(derive_model(job));
    PLIMSOLL_TRY_STATUS(find_teacher(job));
  }
  PLIMSOLL_TRY_STATUS(derive_precision(job));
  derive_gradients(job);
  derive_kernels(job);
  derive_recompute(job);
  Parallel& parallel = job.parallel;
  if (job.has("sequence_parallel")) parallel.sequence_parallel = job.asked.sequence_parallel;
  if (parallel.tensor == 1) parallel.sequence_parallel = false;
  PLIMSOLL_TRY_STATUS(derive_hybrid_stages(job));
  PLIMSOLL_TRY_STATUS(derive_virtual_stages(job));
  if (job.derives && job.is_megatron() && !job.has("overlap_p2p_comm"))
    parallel.overlap_p2p = parallel.virtual_pipeline > 1;
  return {};
}

}  // namespace plimsoll::job
