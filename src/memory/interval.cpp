// SPDX-License-Identifier: Apache-2.0
#include "memory/interval.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "job/effective.h"

namespace plimsoll::memory {

namespace {

// What a job is made of, and the 90th percentile of the residuals of records that are made of it.
struct Mechanism {
  bool (*applies)(const job::Job&);
  double allocated;      // share of the allocated bytes
  double fragmentation;  // share of reserved - allocated
};

bool has_engine(const job::Job& job) {
  return job.is_megatron() && job.kernels.implementation == job::Implementation::kTransformerEngine;
}
// Its variables are set only where it is there; it then holds workspaces beside Megatron's own modules.
bool has_engine_installed(const job::Job& job) {
  return std::any_of(job.environment.begin(), job.environment.end(),
                     [](const auto& variable) { return variable.first.starts_with("NVTE_"); });
}
bool has_latents(const job::Job& job) {
  return std::any_of(job.model.kinds.begin(), job.model.kinds.end(),
                     [](const model::Layer& kind) { return kind.attention.kind == model::AttentionKind::kMla; });
}
bool is_recorded_family(const job::Job& job) { return job.facts().is_recorded; }

// Families of which models of usual sizes were recorded.
bool is_well_recorded(const job::Job& job) {
  constexpr std::string_view kTypes[] = {
      "bloom", "deepseek_v2", "deepseek_v3", "falcon",    "gemma",   "gemma2",    "gemma3_text", "glm4",
      "gpt2",  "gpt_neox",    "gpt_oss",     "llama",     "mistral", "mixtral",   "olmo2",       "opt",
      "phi",   "phi3",        "qwen2",       "qwen2_moe", "qwen3",   "qwen3_moe", "starcoder2"};
  return std::find(std::begin(kTypes), std::end(kTypes), job.model.model_type) != std::end(kTypes);
}
bool is_encoder(const job::Job& job) {
  return job.model.head != model::Head::kLanguage || job.model.encoder_depth() > 0;
}
bool mixes_otherwise(const job::Job& job) {
  return std::any_of(job.model.kinds.begin(), job.model.kinds.end(), [](const model::Layer& kind) {
    return kind.attention.kind == model::AttentionKind::kMamba2 || kind.attention.mamba.heads > 0 ||
           kind.attention.kind == model::AttentionKind::kLinear ||
           kind.attention.kind == model::AttentionKind::kConvolution ||
           kind.attention.kind == model::AttentionKind::kLightning;
  });
}

constexpr Mechanism kMechanisms[] = {
    // megatron-h200.json and its blind part: 98 ranks.
    {[](const job::Job& job) { return job.is_megatron() && !has_engine(job); }, 0.0005, 0.25},
    // transformers-h200.json, -more and -blind: 87 runs; trainer-h200-fresh and -beside: 58.
    {is_recorded_family, 0.0003, 0.02},
    {[](const job::Job& job) { return is_recorded_family(job) && (job.model.has_moe() || has_latents(job)); }, 0.001,
     0.1},
    // trainer-families-h200.json and further-h200.json: small models of families that the others do not hold, and of
    // encoders and mixers.
    {[](const job::Job& job) { return is_recorded_family(job) && !is_well_recorded(job); }, 0.003, 0.3},
    {[](const job::Job& job) { return is_recorded_family(job) && is_encoder(job); }, 0.003, 0.5},
    {[](const job::Job& job) { return is_recorded_family(job) && mixes_otherwise(job); }, 0.008, 0.5},
    // models-h200.json: towers of images; forward passes alone.
    {[](const job::Job& job) { return is_recorded_family(job) && job.model.vision != nullptr; }, 0.003, 0.5},
    {[](const job::Job& job) { return job.batch.inference_only; }, 0.01, 0.5},
    // megatron-golden.json: 211 dense and 41 MoE figures under Transformer Engine, 53 of Megatron's own modules in
    // containers that have it installed, 3 of Megatron-FSDP, 5 with FP8.
    {[](const job::Job& job) { return job.is_megatron() && !has_engine(job) && has_engine_installed(job); }, 0.022,
     0.25},
    {has_engine, 0.013, 0.25},
    {[](const job::Job& job) { return has_engine(job) && job.model.has_moe(); }, 0.046, 0.25},
    {[](const job::Job& job) { return has_engine(job) && job.precision.fp8 != job::Fp8Recipe::kNone; }, 0.05, 0.25},
    {job::shards_by_megatron_fsdp, 0.095, 0.25},
    // Read in sources, in no recording.
    {[](const job::Job& job) { return !job.is_megatron() && !is_recorded_family(job); }, 0.05, 0.3},
    {[](const job::Job& job) { return job.precision.fp4 || job.adapter.has_quantized_base(); }, 0.05, 0.3},
    {[](const job::Job& job) {
       const job::Adapter& a = job.adapter;
       return !a.saved_modules.empty() || a.trained_tokens > 0 || a.own_bias || a.bias != job::AdapterBias::kNone;
     },
     0.05, 0.3},
    {[](const job::Job& job) {
       return job.preference_loss || job.teacher != nullptr || job.optimizer.projection_rank > 0 ||
              job.optimizer.in_backward;
     },
     0.05, 0.3},
    {[](const job::Job& job) { return !job.is_megatron() && job.checkpoint.resumes; }, 0.05, 0.3},
    {[](const job::Job& job) { return job.kernels.torch_compile; }, 0.05, 0.3},
    {[](const job::Job& job) { return !job.is_megatron() && job.precision.fp8 != job::Fp8Recipe::kNone; }, 0.05, 0.3},
};

constexpr std::int64_t kLeast = 4 << 20;  // workspaces and segments that come and go
constexpr double kNotModelled = 0.05;     // for each named warning, up to three

std::int64_t part(double share, std::int64_t bytes) {
  return static_cast<std::int64_t>(share * static_cast<double>(bytes));
}

}  // namespace

Spread spread_of(const job::Job& job, std::size_t step_warnings, std::int64_t allocated, std::int64_t reserved) {
  double share = 0;
  double fragmentation = 0;
  for (const Mechanism& mechanism : kMechanisms) {
    if (!mechanism.applies(job)) continue;
    share = std::max(share, mechanism.allocated);
    fragmentation = std::max(fragmentation, mechanism.fragmentation);
  }
  share += kNotModelled * static_cast<double>(std::min<std::size_t>(3, job.warnings.size() + step_warnings));
  Spread spread;
  spread.allocated = part(share, allocated);
  spread.reserved = spread.allocated + part(fragmentation, std::max<std::int64_t>(0, reserved - allocated)) + kLeast;
  return spread;
}

}  // namespace plimsoll::memory
