// SPDX-License-Identifier: Apache-2.0
// What a framework would refuse, and what would make the step of a rank nonsense. A check of a rule names it; its words
// are in the catalogue (job/refusal.h).
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/budget.h"
#include "base/name_pattern.h"
#include "cluster/architecture.h"
#include "job/derive.h"
#include "job/effective.h"
#include "job/hybrid_model.h"
#include "job/keys.h"
#include "job/pipeline_layout.h"
#include "job/refusal.h"
#include "model/vision.h"

namespace plimsoll::job {

namespace {

using model::AttentionKind;

Status check_attention(const Job& job, const model::Attention& attention) {
  const std::int64_t t = job.parallel.tensor;
  if (attention.kind == AttentionKind::kLinear) {
    const std::int64_t split = t * job.parallel.context;
    if (attention.linear_key_heads % split != 0 || attention.linear_value_heads % split != 0) return refused("R258");
    return {};
  }
  if (attention.kind == AttentionKind::kNone) return {};
  if (attention.kind == AttentionKind::kMamba2 && job.is_megatron()) return check_mixer(job, attention.mamba);
  if (attention.heads % t != 0) return refused("R015");
  if (attention.kind == AttentionKind::kGqa && attention.kv_heads % t != 0 && t % attention.kv_heads != 0)
    return refused("R016");
  const bool heads_move = job.parallel.context > 1 && job.parallel.cp_comm_type.front() == CpCommType::kA2a;
  if (heads_move && (attention.heads / t) % job.parallel.context != 0) return refused("R069");
  return {};
}

Status check_feed_forward(Job& job, const model::FeedForward& ffn) {
  const std::int64_t t = job.parallel.tensor;
  const auto splits = [](std::string_view what, std::int64_t width, std::string_view by, std::int64_t ranks) -> Status {
    if (width % ranks == 0) return {};
    return bad_input(fmt::format("{} {} is not divisible by {} {}", what, width, by, ranks));
  };
  PLIMSOLL_TRY_STATUS(splits("ffn_hidden_size", ffn.width, "tensor_model_parallel_size", t));
  if (!ffn.is_moe()) return {};
  PLIMSOLL_TRY_STATUS(
      splits("moe_ffn_hidden_size", ffn.expert_width, "expert_tensor_parallel_size", job.expert_tensor()));
  PLIMSOLL_TRY_STATUS(splits("moe_shared_expert_intermediate_size", ffn.shared_width, "tensor_model_parallel_size", t));
  if (ffn.experts % job.parallel.expert != 0) return refused("R158");
  if (ffn.experts_per_token > ffn.experts)
    return bad_input(fmt::format("moe_router_topk {} is more than the {} experts", ffn.experts_per_token, ffn.experts));
  if (ffn.expert_bias && job.expert_tensor() != 1 && job.is_megatron() && job.derives) warn(job, "R161");
  return {};
}

// What only the builders of Transformers' own code know.
std::string_view beyond_language_models(const model::Architecture& model) {
  if (model.patches > 0) return "an image encoder";
  if (model.head == model::Head::kScores) return "a model with a head of scores";
  if (model.head != model::Head::kLanguage) return "an encoder of masked words";
  if (model.streams != nullptr) return "a model with several residual streams";
  for (const model::Layer& kind : model.kinds) {
    if (kind.cross_attention) return "an encoder-decoder model";
    if (kind.ffn.latent > 0) return "a model with latent experts";
    const bool mixes = kind.attention.kind == AttentionKind::kMamba2 || kind.attention.mamba.heads > 0;
    if (mixes || kind.attention.kind == AttentionKind::kNone) return "a model with state-space mixers";
    if (kind.attention.kind == AttentionKind::kConvolution) return "a model with short convolutions";
    if (kind.attention.kind == AttentionKind::kLightning) return "a model with lightning attention";
  }
  return {};
}

// Megatron's own T5 and BERT.
Status check_class(const Job& job) {
  if (job.model.encoder_depth() == 0) return {};
  if (job.parallel.pipeline > 1)
    return bad_input("Pipeline parallelism is not supported for T5.", "set pipeline_model_parallel_size = 1");
  if (job.parallel.context > 1)
    return tl::make_unexpected(Error{Code::kMissing,
                                     "context parallelism of an encoder-decoder model is not modelled",
                                     {},
                                     "set context_parallel_size = 1"});
  if (job.model.position_rows > 0 && job.batch.decoder_length > job.model.position_rows)
    return bad_input(
        fmt::format("max_position_embeddings ({}) must be greater than or equal to decoder_seq_length ({})",
                    job.model.position_rows, job.batch.decoder_length));
  return {};
}

// Megatron's own hybrid models, whose layers are mixers, attention, MLPs or experts alone.
Status check_hybrid(const Job& job) {
  const auto unmodelled = [](std::string what, std::string hint) {
    return tl::make_unexpected(Error{Code::kMissing, std::move(what), {}, std::move(hint)});
  };
  if (job.kernels.implementation != Implementation::kTransformerEngine)
    return bad_input("hybrid models have layers of Transformer Engine alone",
                     "set transformer_impl = transformer_engine");
  if (job.adapter.kind != AdapterKind::kNone)
    return unmodelled("adapters on the mixers of a hybrid model are not modelled", "set peft = none");
  if (job.offload.activations)  // its stack of layers has no context for it
    return bad_input("cpu_offloading: Megatron's hybrid models do not offload whole layers",
                     "set cpu_offloading = false");
  return {};
}

// Stages and shards are cut at layers, and here layers have weights or keys in common.
Status check_shared_parts(const Job& job) {
  const bool weights = job.model.shared_block != nullptr;
  if (!weights && job.model.streams == nullptr) return {};
  const bool cuts_layers = job.sharding.kind == ShardingKind::kFsdp2 || job.sharding.kind == ShardingKind::kFsdp1;
  if (job.parallel.pipeline == 1 && !(weights && cuts_layers)) return {};
  return tl::make_unexpected(Error{
      Code::kMissing,
      fmt::format("layers of {} have {} in common, which is not modelled under {}", job.model.model_type,
                  weights ? "weights" : "keys and values", job.parallel.pipeline > 1 ? "pipeline parallelism" : "FSDP"),
      {},
      "use --framework transformers or deepspeed"});
}

Status check_framework(const Job& job) {
  PLIMSOLL_TRY_STATUS(check_shared_parts(job));
  const bool runs_any = job.facts().runs_hub_models;
  const std::string_view kind = beyond_language_models(job.model);
  if (job.is_megatron() && (job.model_keys.model_class || job.model_keys.decoder_num_layers)) return check_class(job);
  const bool splits_sequences = job.parallel.context > 1 && job.model.head != model::Head::kScores;
  if (job.is_megatron() && is_hybrid(job.model)) return check_hybrid(job);
  if (routes_alone(job.model))
    return tl::make_unexpected(Error{Code::kMissing,
                                     fmt::format("{} has experts in layers of their own, which are modelled as "
                                                 "Megatron runs them, not under {}",
                                                 job.model.model_type, name_of(job.framework)),
                                     {},
                                     "use --framework megatron-lm or megatron-bridge"});
  if (kind.empty() || (runs_any && job.parallel.tensor == 1 && !splits_sequences)) return {};
  return tl::make_unexpected(
      Error{Code::kMissing,
            fmt::format("{} is {}, which is modelled as Transformers runs it on whole layers, not under {}{}",
                        job.model.model_type, kind, name_of(job.framework),
                        runs_any ? " with tensor or context parallelism" : ""),
            {},
            "use --framework transformers, fsdp2 or deepspeed"});
}

// What of the model's file is not in the numbers. That the file leaves keys to its class is no such thing.
void say_what_is_missing(Job& job) {
  for (const std::string& warning : job.model.warnings)
    if (!warning.starts_with("config.json:")) warn(job, warning);
}

Status check_model(Job& job) {
  say_what_is_missing(job);
  if (job.model.vision != nullptr && !runs_tower(job))
    warn(job, fmt::format("vision_config: the tower of {} is modelled under Transformers and FSDP2 on whole layers; "
                          "here only the language model is in the numbers",
                          job.model.vision->model_type));
  PLIMSOLL_TRY_STATUS(check_framework(job));
  if (job.derives && job.is_megatron() && job.model.has_moe() && job.parallel.tensor > 1 &&
      !job.parallel.sequence_parallel)
    warn(job, "R023");
  for (const model::Layer& kind : job.model.kinds) {
    PLIMSOLL_TRY_STATUS(check_attention(job, kind.attention));
    PLIMSOLL_TRY_STATUS(check_feed_forward(job, kind.ffn));
  }
  if (job.model.position_rows > 0 && job.batch.seq_length > job.model.position_rows) return refused("R008");
  if (job.facts().positions_bound_sequences && job.has("max_position_embeddings") &&
      job.batch.seq_length > job.model.max_positions)
    return refused("R008");
  return {};
}

Status check_sequence(const Job& job) {
  const Parallel& parallel = job.parallel;
  const std::int64_t s = job.batch.seq_length;
  if (s < 1) return bad_input("the sequence length is not known", std::string(job.facts().seq_length_hint));
  if (parallel.context > 1 && s % (2 * parallel.context) != 0) return refused("R065");
  if (parallel.sequence_parallel && (s / parallel.context) % parallel.tensor != 0)
    return bad_input(
        fmt::format("sequence_parallel splits the {} tokens of a sequence over {} tensor-parallel ranks; "
                    "wanted a multiple",
                    s / parallel.context, parallel.tensor));
  const auto types = static_cast<std::int64_t>(parallel.cp_comm_type.size());
  if (types == 0 || (types > 1 && types != job.model.depth())) return refused("R066");
  return {};
}

// The largest tensor of any rank must be countable in bytes: T * width * layers in flight.
Status check_magnitude(const Job& job) {
  double widest = static_cast<double>(std::max(job.model.hidden, job.vocab_rows));
  for (const model::Layer& kind : job.model.kinds) {
    const auto& ffn = kind.ffn;
    widest = std::max(widest, static_cast<double>(ffn.width));
    widest = std::max(widest, static_cast<double>(ffn.expert_width + ffn.shared_width) *
                                  static_cast<double>(ffn.experts_per_token + 1) * job.moe.imbalance);
    widest = std::max(widest, static_cast<double>(kind.attention.heads) * static_cast<double>(kind.attention.head_dim));
  }
  const double tokens = static_cast<double>(job.batch.seq_length) * static_cast<double>(job.batch.micro_batch);
  const double passes = static_cast<double>(job.parallel.pipeline) * static_cast<double>(job.parallel.virtual_pipeline);
  const bool has_scores = job.kernels.attention == AttentionBackend::kUnfused || job.batch.padding_mask;
  const double score = !has_scores ? 0
                                   : tokens * static_cast<double>(job.batch.seq_length) *
                                         static_cast<double>(job.model.layer(0).attention.heads + 1);
  const double bytes =
      std::max(tokens * widest, score) * static_cast<double>(job.model.depth() + 8) * (passes + 2) * 64;
  if (!(bytes < 4e18))
    return bad_input(fmt::format("{:.0f} tokens of {} layers in one micro-batch are more than any machine holds",
                                 tokens, job.model.depth()),
                     "check seq_length, micro_batch_size and the sizes of the model");
  return {};
}

// A step is simulated pass by pass: counts beyond these are mistakes, and would never end.
Status check_counts(const Job& job) {
  struct Bound {
    const char* key;
    std::int64_t value;
    std::int64_t most;
  };
  constexpr std::int64_t kMicroBatches = std::int64_t{1} << 20;
  constexpr std::int64_t kSimulated = 4096;
  const bool gpipe = job.parallel.schedule == PipelineSchedule::kGpipe && job.parallel.pipeline > 1;
  const Bound bounds[] = {
      {"micro-batches per step", job.micro_batches, gpipe ? kSimulated : kMicroBatches},
      {"microbatch_group_size_per_vp_stage", job.parallel.microbatch_group_size.value_or(1), kSimulated},
      {"lora rank", job.adapter.rank, 1 << 16},
      {"evaluation micro-batch", job.batch.eval_micro_batch, 1 << 20},
      {"evaluation sequence length", job.batch.eval_seq_length, 1 << 24},
      {"evaluation batches kept", job.batch.eval_batches_kept, 1 << 24},
  };
  // Experts are tensors of their own in Megatron; a rank that held millions of them could not even list them.
  std::int64_t experts = 0;
  for (const model::Layer& kind : job.model.kinds) experts = std::max(experts, kind.ffn.experts);
  const std::int64_t of_layer = 12 + (job.is_megatron() ? 2 * (experts / job.parallel.expert) : 0);
  const std::int64_t weights = job.model.depth() / job.parallel.pipeline * of_layer;
  if (weights > kBudget.weights)
    return bad_input(fmt::format("about {} tensors of weights on a rank are too many to simulate; wanted at most {}",
                                 weights, kBudget.weights),
                     "check num_layers and num_moe_experts, or raise expert_model_parallel_size");
  for (const Bound& bound : bounds) {
    if (bound.value >= 0 && bound.value <= bound.most) continue;
    return bad_input(fmt::format("{}: found {}, wanted at most {}", bound.key, bound.value, bound.most),
                     "check global_batch_size, micro_batch_size and the number of GPUs");
  }
  const double eval_tokens = static_cast<double>(job.batch.eval_micro_batch) *
                             static_cast<double>(std::max(job.batch.eval_seq_length, job.batch.seq_length)) *
                             static_cast<double>(std::max<std::int64_t>(1, job.batch.eval_batches_kept));
  if (eval_tokens * static_cast<double>(job.vocab_rows + job.model.hidden) > 1e16)
    return bad_input(fmt::format("{:.0f} tokens of evaluation are more than any machine holds", eval_tokens),
                     "check the evaluation batch and sequence length");
  return {};
}

Status check_pipeline(const Job& job) {
  const Parallel& parallel = job.parallel;
  if (parallel.virtual_pipeline > 1 && parallel.pipeline == 1) return refused("R038");
  PLIMSOLL_TRY_STATUS(check_pipeline_layout(job));
  if (parallel.defer_embedding_wgrad && parallel.pipeline == 1) return refused("R059");
  if (parallel.virtual_pipeline > 1) {
    const std::int64_t group = parallel.microbatch_group_size.value_or(parallel.pipeline);
    if (group < parallel.pipeline || group > job.micro_batches) return refused("R042");
    const std::int64_t rest = job.micro_batches % group;
    if (rest != 0 && rest < parallel.pipeline) return refused("R043");
  }
  if (parallel.overlap_p2p_warmup_flush && !parallel.overlap_p2p) return refused("R041");
  return {};
}

Status check_recompute(Job& job) {
  const Recompute& recompute = job.recompute;
  const bool full = recompute.granularity == RecomputeGranularity::kFull;
  if (recompute.num_layers < 1) return bad_input("recompute_num_layers must be at least 1");
  if (job.derives && job.is_megatron()) {
    if (full && !job.has("recompute_method")) return refused("R092");
    if (full && !job.has("recompute_num_layers")) return refused("R093");
    const bool selective = recompute.granularity == RecomputeGranularity::kSelective;
    if (selective && job.has("recompute_num_layers")) return refused("R094");
    if (selective && job.has("recompute_method")) return refused("R095");
    if (recompute.granularity == RecomputeGranularity::kNone && job.has("recompute_modules"))
      warn(job, "recompute_modules: has no effect without recompute_granularity selective");
  }
  const RecomputeModules& modules = recompute.modules;
  const bool any = modules.core_attn || modules.layernorm || modules.mla_up_proj || modules.mlp || modules.moe ||
                   modules.moe_act || modules.shared_experts;
  if (recompute.granularity == RecomputeGranularity::kSelective) {
    if (!any) warn(job, "R099");
    if (modules.moe_act && !job.moe.grouped_gemm) return refused("R100");
    if (modules.mla_up_proj && job.model.kinds.front().attention.kind != AttentionKind::kMla) return refused("R101");
    if (job.precision.fp8 == Fp8Recipe::kDelayed && (modules.moe_act || modules.layernorm)) return refused("R107");
  }
  if (recompute.distribute_saved) {
    if (job.parallel.sequence_parallel) return refused("R112");
    if (job.parallel.tensor == 1 || !full) return refused("R113");
  }
  return {};
}

Status check_offload(const Job& job) {
  const Offload& offload = job.offload;
  const bool recomputes = job.recompute.granularity != RecomputeGranularity::kNone;
  if (offload.activations) {
    if (job.parallel.pipeline > 1) return refused("R115");
    if (recomputes) return refused("R116");
    if (offload.activation_layers < 0 || offload.activation_layers >= job.model.depth()) return refused("R117");
    if (offload.fine_grained) return refused("R119");
  }
  const OffloadModules& modules = offload.modules;
  if (offload.fine_grained) {
    if (!(modules.attn_norm || modules.qkv_linear || modules.core_attn || modules.attn_proj || modules.mlp_norm ||
          modules.expert_fc1 || modules.moe_act || modules.fused_group_mlp))
      return refused("R120");
    if (modules.attn_proj && !modules.core_attn) return refused("R122");
    if (job.recompute.modules.moe && (modules.expert_fc1 || modules.moe_act || modules.fused_group_mlp))
      return refused("R123");
  }
  return {};
}

// What torchtitan and the Trainer refuse of it, and what is not modelled.
Status check_updates_in_backward(const Job& job) {
  constexpr std::string_view kKey = "optimizer_in_backward";
  const bool titan = job.kernels.implementation == Implementation::kTorchtitan;
  if (!titan && job.kernels.implementation != Implementation::kTransformers)
    return bad_input(fmt::format("{}: it is modelled under torchtitan and Transformers", kKey));
  if (titan && job.parallel.expert > 1)
    return bad_input("Optimizers in backward is not supported with Expert Parallel.",
                     "set early_step_in_backward false");
  if (job.parallel.pipeline > 1)
    return bad_input("Optimizers in backward is not supported with Pipeline Parallel.",
                     "set early_step_in_backward false");
  const ShardingKind kind = job.sharding.kind;
  const bool one = kind == ShardingKind::kNone || job.data_parallel == 1;
  if (!one && !(titan && kind == ShardingKind::kFsdp2))
    return bad_input(fmt::format("{}: Layer-wise optimizers do not support DDP at this time", kKey),
                     "train on one GPU, or with the form that is not layer-wise");
  if (!titan && job.micro_batches > 1)
    return bad_input(fmt::format("{}: Layerwise optimizers do not support gradient accumulation", kKey),
                     "set gradient_accumulation_steps 1");
  if (job.optimizer.kind == OptimizerKind::kMuon)
    return bad_input(fmt::format("{}: Muon's updates as gradients arrive are not modelled", kKey));
  return {};
}

Status check_optimizer(Job& job) {
  const Optimizer& optimizer = job.optimizer;
  if (optimizer.projection_rank > 0) {
    if (optimizer.kind != OptimizerKind::kAdam && optimizer.kind != OptimizerKind::kAdam8bit)
      return bad_input(
          fmt::format("projection_rank: GaLore is modelled for adam and adam8bit, not {}", name_of(optimizer.kind)));
    if (optimizer.projected.empty())
      return bad_input("projection_rank: optim_target_modules says nothing, and GaLore and APOLLO ask for it",
                       "name parts of modules, such as attn mlp, or all-linear");
    constexpr std::size_t kMostNames = 1'000;
    if (optimizer.projected.size() > kMostNames)
      return bad_input(
          fmt::format("optim_target_modules: {} names, wanted at most {}", optimizer.projected.size(), kMostNames));
    for (const std::string& name : optimizer.projected)
      if (is_pattern(name)) PLIMSOLL_TRY_STATUS(check_pattern(name));
    const bool whole = job.sharding.kind == ShardingKind::kNone || job.sharding.kind == ShardingKind::kDdp;
    if (!whole || job.kernels.implementation != Implementation::kTransformers || job.parallel.pipeline > 1)
      return bad_input(
          "projection_rank: GaLore and APOLLO project whole gradients; they are modelled for Transformers' modules "
          "that "
          "are whole on a rank");
    if (optimizer.random_projection && optimizer.kind != OptimizerKind::kAdam)
      return bad_input(fmt::format("random_projection: APOLLO is modelled for adam, not {}", name_of(optimizer.kind)));
  } else if (optimizer.random_projection) {
    return bad_input("random_projection: projection_rank is 0", "say a rank, such as 128");
  }
  if (optimizer.in_backward) PLIMSOLL_TRY_STATUS(check_updates_in_backward(job));
  const bool fsdp = shards_by_megatron_fsdp(job);
  const std::int64_t shards = job.data_parallel * job.parallel.context;
  if (job.is_megatron()) {
    if (shards % optimizer.instances != 0) return refused("R012");
    if (job.model.has_moe() && job.expert_data_parallel % optimizer.instances != 0) return refused("R013");
    if (optimizer.precision_aware && !optimizer.distributed && !fsdp) return refused("R214");
    if (optimizer.precision_aware && optimizer.kind != OptimizerKind::kAdam) return refused("R215");
    const bool plain = optimizer.main_params == DType::kFp32 && optimizer.exp_avg == DType::kFp32 &&
                       optimizer.exp_avg_sq == DType::kFp32 && optimizer.main_grads == DType::kFp32;
    if (!optimizer.precision_aware && !plain) return refused("R216");
    if (optimizer.overlap_param_gather && job.derives && job.has("overlap_param_gather") && !optimizer.distributed &&
        !fsdp && optimizer.kind != OptimizerKind::kMuon)
      return refused("R224");
    if (job.facts().moves_precision_aware_only && optimizer.cpu_offload_fraction > 0 && !optimizer.precision_aware)
      return refused("R221");
  }
  if (!(optimizer.cpu_offload_fraction >= 0 && optimizer.cpu_offload_fraction <= 1))
    return bad_input("optimizer_offload_fraction must be from 0 to 1");
  return {};
}

Status check_precision(const Job& job) {
  const Precision& precision = job.precision;
  const bool fp8 = job.asked.fp8 || precision.fp8 != Fp8Recipe::kNone;
  if (fp8 && precision.fp4) return refused("R193");
  if (precision.fp8_param_gather && !fp8 && job.is_megatron()) return refused("R194");
  if (precision.fp4_param_gather && !precision.fp4) return refused("R196");
  const auto capability = cluster::compute_capability(job.cluster.gpu.architecture);
  if (fp8 && job.kernels.implementation == Implementation::kTorchtitan && capability && *capability < 89)
    return bad_input("Failed to swap to Float8Linear because float8 is only supported on SM89 or later.",
                     "leave the converter out, or take a newer GPU");
  if (precision.fp8 == Fp8Recipe::kMxfp8 && job.kernels.implementation == Implementation::kTorchtitan && capability &&
      *capability < 100)
    return bad_input("MXFP8 is only supported on CUDA SM100 or later", "take the float8 converter, or a newer GPU");
  if (precision.first_last_layers_bf16 && precision.fp8 == Fp8Recipe::kDelayed) return refused("R198");
  if (job.facts().refuses_idle_fp32_residual && precision.fp32_residual && precision.compute == DType::kFp32)
    return refused("R208");
  return {};
}

Status check_sharding(Job& job) {
  const Sharding& sharding = job.sharding;
  const std::int64_t ranks = job.data_parallel * job.parallel.context;
  if (ranks % sharding.replicas != 0)
    return bad_input(
        fmt::format("dp_replicate {} does not divide the {} data-parallel ranks", sharding.replicas, ranks));
  if (sharding.kind == ShardingKind::kZero) {
    if (sharding.zero_stage < 0 || sharding.zero_stage > 3) return refused("R272");
    if (sharding.offload_ratio < 1 && sharding.zero_stage != 3 && sharding.offload_optimizer != OffloadTarget::kNone)
      return refused("R274");
    if (sharding.offload_param != OffloadTarget::kNone && sharding.zero_stage != 3) warn(job, "R275");
    if (job.parallel.pipeline > 1 && sharding.zero_stage > 1) return refused("R284");
    for (const std::int64_t group : {sharding.hpz_partition, sharding.mics_shard})
      if (group > 1 && job.data_parallel % group != 0)
        return bad_input(fmt::format("a shard group of {} ranks does not divide the {} data-parallel ranks", group,
                                     job.data_parallel));
  }
  return {};
}

}  // namespace

Status check(Job& job) {
  PLIMSOLL_TRY_STATUS(check_sequence(job));
  PLIMSOLL_TRY_STATUS(check_model(job));
  PLIMSOLL_TRY_STATUS(check_magnitude(job));
  PLIMSOLL_TRY_STATUS(check_counts(job));
  PLIMSOLL_TRY_STATUS(check_pipeline(job));
  PLIMSOLL_TRY_STATUS(check_recompute(job));
  PLIMSOLL_TRY_STATUS(check_offload(job));
  PLIMSOLL_TRY_STATUS(check_precision(job));
  PLIMSOLL_TRY_STATUS(check_optimizer(job));
  PLIMSOLL_TRY_STATUS(check_sharding(job));
  PLIMSOLL_TRY_STATUS(check_trained(job));
  return check_adapter(job);
}

}  // namespace plimsoll::job
