// SPDX-License-Identifier: Apache-2.0
// The closed sets of choices in a job, with their spelling in files. One table per enum serves
// reading, printing and the "wanted one of" part of messages.
#pragma once

#include <cstdint>
#include <span>

#include "base/choices.h"
#include "framework/list.h"

namespace plimsoll::job {

enum class Framework : std::uint8_t {
#define PLIMSOLL_ROW(id, name) id,
  PLIMSOLL_FRAMEWORKS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW
};
enum class DType : std::uint8_t { kFp32, kBf16, kFp16, kFp8 };
enum class Fp8Recipe : std::uint8_t { kNone, kDelayed, kTensorwise, kBlockwise, kMxfp8 };
enum class CpCommType : std::uint8_t { kP2p, kAllGather, kA2a, kA2aP2p };
enum class PipelineSchedule : std::uint8_t { k1F1B, kGpipe };  // interleaved = 1F1B with virtual stages
enum class OptimizerKind : std::uint8_t { kAdam, kAdam8bit, kAdafactor, kSgd, kMuon, kLion };
enum class OptimizerImpl : std::uint8_t { kFused, kForeach, kLoop };
enum class ShardingKind : std::uint8_t { kNone, kDdp, kFsdp2, kFsdp1, kZero, kMegatronFsdp };
enum class FsdpUnits : std::uint8_t {
  kLayersAndRoot,  // each layer; everything else in the root
  kAccelerate,     // each layer; embedding; [final norm, head] not resharded; root
  kTorchtitan,     // each layer; embedding; [norm, head]; root
  kWholeModel,     // no wrap policy
};
enum class OffloadTarget : std::uint8_t { kNone, kCpu, kNvme };
enum class MegatronFsdpStrategy : std::uint8_t { kNoShard, kOptim, kOptimGrads, kOptimGradsParams };
enum class RecomputeGranularity : std::uint8_t {
  kNone,
  kSelective,     // by module
  kFull,          // whole layers
  kSelectiveOps,  // torchtitan's per-op policy
};
enum class RecomputeMethod : std::uint8_t { kUniform, kBlock };
enum class AdapterKind : std::uint8_t { kNone, kLora, kDora };
enum class AdapterBias : std::uint8_t {
  kNone,
  kAll,      // every bias of the model
  kAdapted,  // those of linears that carry an adapter
};
enum class StateDict : std::uint8_t {
  kSharded,  // every rank writes its own part
  kFull,     // gathered on rank 0
};
enum class Implementation : std::uint8_t {
  kTransformerEngine,
  kLocal,         // Megatron's own modules without Transformer Engine
  kTransformers,  // Hugging Face modelling code
  kTorchtitan,
};
enum class AttentionBackend : std::uint8_t {
  kFlash,    // FlashAttention or PyTorch's flash SDPA
  kFused,    // cuDNN
  kUnfused,  // scores are materialised (Megatron unfused, Transformers eager)
};
enum class LossKind : std::uint8_t {
  kUnfused,       // Megatron's in-place vocabulary-parallel cross entropy
  kNativeFused,   // cross_entropy_loss_fusion with torch.compile
  kTe,            // Transformer Engine: in place on bf16 logits
  kTransformers,  // fp32 upcast, log_softmax, nll
  kLiger,         // fused linear cross entropy
  kChunked,       // torchtitan / TRL chunked loss
};
enum class DispatcherKind : std::uint8_t { kAllToAll, kAllGather, kDeepEp, kHybridEp };
enum class CudaGraphs : std::uint8_t { kNone, kPerLayer, kFullIteration };

struct RecomputeModules {
  bool core_attn = false;
  bool layernorm = false;
  bool mla_up_proj = false;
  bool mlp = false;
  bool moe = false;
  bool moe_act = false;
  bool shared_experts = false;

  friend bool operator==(const RecomputeModules&, const RecomputeModules&) = default;
};

struct OffloadModules {
  bool attn_norm = false;
  bool qkv_linear = false;
  bool core_attn = false;
  bool attn_proj = false;
  bool mlp_norm = false;
  bool expert_fc1 = false;
  bool moe_act = false;
  bool fused_group_mlp = false;  // all that the fused grouped MLP saves

  friend bool operator==(const OffloadModules&, const OffloadModules&) = default;
};

[[nodiscard]] constexpr std::int64_t size_of(DType type) {
  switch (type) {
    case DType::kFp32:
      return 4;
    case DType::kBf16:
    case DType::kFp16:
      return 2;
    case DType::kFp8:
      return 1;
  }
  return 0;
}

// Their spelling in job files (base/choices.h).
[[nodiscard]] std::span<const Spelling<Framework>> spellings_of(Framework value);
[[nodiscard]] std::span<const Spelling<DType>> spellings_of(DType value);
[[nodiscard]] std::span<const Spelling<Fp8Recipe>> spellings_of(Fp8Recipe value);
[[nodiscard]] std::span<const Spelling<CpCommType>> spellings_of(CpCommType value);
[[nodiscard]] std::span<const Spelling<PipelineSchedule>> spellings_of(PipelineSchedule value);
[[nodiscard]] std::span<const Spelling<OptimizerKind>> spellings_of(OptimizerKind value);
[[nodiscard]] std::span<const Spelling<OptimizerImpl>> spellings_of(OptimizerImpl value);
[[nodiscard]] std::span<const Spelling<ShardingKind>> spellings_of(ShardingKind value);
[[nodiscard]] std::span<const Spelling<FsdpUnits>> spellings_of(FsdpUnits value);
[[nodiscard]] std::span<const Spelling<OffloadTarget>> spellings_of(OffloadTarget value);
[[nodiscard]] std::span<const Spelling<MegatronFsdpStrategy>> spellings_of(MegatronFsdpStrategy value);
[[nodiscard]] std::span<const Spelling<RecomputeGranularity>> spellings_of(RecomputeGranularity value);
[[nodiscard]] std::span<const Spelling<RecomputeMethod>> spellings_of(RecomputeMethod value);
[[nodiscard]] std::span<const Spelling<AdapterKind>> spellings_of(AdapterKind value);
[[nodiscard]] std::span<const Spelling<AdapterBias>> spellings_of(AdapterBias value);
[[nodiscard]] std::span<const Spelling<StateDict>> spellings_of(StateDict value);
[[nodiscard]] std::span<const Spelling<Implementation>> spellings_of(Implementation value);
[[nodiscard]] std::span<const Spelling<AttentionBackend>> spellings_of(AttentionBackend value);
[[nodiscard]] std::span<const Spelling<LossKind>> spellings_of(LossKind value);
[[nodiscard]] std::span<const Spelling<DispatcherKind>> spellings_of(DispatcherKind value);
[[nodiscard]] std::span<const Spelling<CudaGraphs>> spellings_of(CudaGraphs value);
using plimsoll::choices;
using plimsoll::from_name;
using plimsoll::name_of;

}  // namespace plimsoll::job
