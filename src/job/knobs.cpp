// SPDX-License-Identifier: Apache-2.0
// One table of spellings per enum. The first word of a row is the name we print; the words after it
// are what other frameworks write for the same thing. Case, '-' and '_' do not matter on reading.
#include "job/knobs.h"

#include <span>
#include <vector>

#include "base/text.h"
#include "job/framework.h"

namespace plimsoll::job {

namespace {

template <class Enum>
struct Spelling {
  Enum value;
  std::string_view name;
  std::string_view aliases = {};  // separated by spaces
};

constexpr Spelling<DType> kDTypes[] = {
    {DType::kFp32, "fp32", "float32 float torch.float32 torch.float 32 32-true"},
    {DType::kBf16, "bf16", "bfloat16 torch.bfloat16 bf16-mixed"},
    {DType::kFp16, "fp16", "float16 half torch.float16 torch.half 16-mixed"},
    {DType::kFp8, "fp8", "uint8 torch.uint8 float8 float8_e4m3fn torch.float8_e4m3fn"},
};
constexpr Spelling<Fp8Recipe> kFp8Recipes[] = {
    {Fp8Recipe::kNone, "none", "off"},
    {Fp8Recipe::kDelayed, "delayed"},
    {Fp8Recipe::kTensorwise, "tensorwise", "current current_scaling"},
    {Fp8Recipe::kBlockwise, "blockwise", "subchannel subchannel_scaling"},
    {Fp8Recipe::kMxfp8, "mxfp8"},
};
constexpr Spelling<CpCommType> kCpCommTypes[] = {
    {CpCommType::kP2p, "p2p", "ring"},
    {CpCommType::kAllGather, "all_gather", "allgather"},
    {CpCommType::kA2a, "a2a", "ulysses"},
    {CpCommType::kA2aP2p, "a2a+p2p"},
};
constexpr Spelling<PipelineSchedule> kSchedules[] = {
    {PipelineSchedule::k1F1B, "1f1b", "interleaved1f1b"},
    {PipelineSchedule::kGpipe, "gpipe"},
};
constexpr Spelling<OptimizerKind> kOptimizers[] = {
    {OptimizerKind::kAdam, "adam", "adamw"},
    {OptimizerKind::kAdam8bit, "adam8bit", "adamw8bit adamw_8bit adam_8bit"},
    {OptimizerKind::kAdafactor, "adafactor"},
    {OptimizerKind::kSgd, "sgd"},
    {OptimizerKind::kMuon, "muon", "dist_muon"},
    {OptimizerKind::kLion, "lion"},
};
constexpr Spelling<OptimizerImpl> kOptimizerImpls[] = {
    {OptimizerImpl::kFused, "fused"},
    {OptimizerImpl::kForeach, "foreach"},
    {OptimizerImpl::kLoop, "loop", "for-loop"},
};
constexpr Spelling<ShardingKind> kShardings[] = {
    {ShardingKind::kNone, "none"},
    {ShardingKind::kDdp, "ddp"},
    {ShardingKind::kFsdp2, "fsdp2"},
    {ShardingKind::kFsdp1, "fsdp1"},
    {ShardingKind::kZero, "zero", "deepspeed"},
    {ShardingKind::kMegatronFsdp, "megatron-fsdp"},
};
constexpr Spelling<FsdpUnits> kFsdpUnits[] = {
    {FsdpUnits::kLayersAndRoot, "layers-and-root"},
    {FsdpUnits::kAccelerate, "accelerate"},
    {FsdpUnits::kTorchtitan, "torchtitan"},
    {FsdpUnits::kWholeModel, "whole-model"},
};
constexpr Spelling<OffloadTarget> kOffloadTargets[] = {
    {OffloadTarget::kNone, "none"},
    {OffloadTarget::kCpu, "cpu"},
    {OffloadTarget::kNvme, "nvme"},
};
constexpr Spelling<MegatronFsdpStrategy> kStrategies[] = {
    {MegatronFsdpStrategy::kNoShard, "no_shard", "0"},
    {MegatronFsdpStrategy::kOptim, "optim", "1"},
    {MegatronFsdpStrategy::kOptimGrads, "optim_grads", "2"},
    {MegatronFsdpStrategy::kOptimGradsParams, "optim_grads_params", "3"},
};
constexpr Spelling<RecomputeGranularity> kGranularities[] = {
    {RecomputeGranularity::kNone, "none"},
    {RecomputeGranularity::kSelective, "selective"},
    {RecomputeGranularity::kFull, "full"},
    {RecomputeGranularity::kSelectiveOps, "selective-ops"},
};
constexpr Spelling<RecomputeMethod> kMethods[] = {
    {RecomputeMethod::kUniform, "uniform"},
    {RecomputeMethod::kBlock, "block"},
};
constexpr Spelling<AdapterKind> kAdapters[] = {
    {AdapterKind::kNone, "none"},
    {AdapterKind::kLora, "lora"},
    {AdapterKind::kDora, "dora"},
};
constexpr Spelling<AdapterBias> kAdapterBiases[] = {
    {AdapterBias::kNone, "none"},
    {AdapterBias::kAll, "all"},
    {AdapterBias::kAdapted, "lora_only"},
};
constexpr Spelling<Implementation> kImplementations[] = {
    {Implementation::kTransformerEngine, "transformer_engine", "te"},
    {Implementation::kLocal, "local"},
    {Implementation::kTransformers, "transformers", "hf"},
    {Implementation::kTorchtitan, "torchtitan"},
};
constexpr Spelling<AttentionBackend> kAttentions[] = {
    {AttentionBackend::kFlash, "flash", "sdpa flash_attention_2 flash_attention_3"},
    {AttentionBackend::kFused, "fused", "cudnn"},
    {AttentionBackend::kUnfused, "unfused", "eager local"},
};
constexpr Spelling<LossKind> kLosses[] = {
    {LossKind::kUnfused, "unfused"}, {LossKind::kNativeFused, "native"},
    {LossKind::kTe, "te"},           {LossKind::kTransformers, "transformers", "nll"},
    {LossKind::kLiger, "liger"},     {LossKind::kChunked, "chunked", "chunked_nll"},
};
constexpr Spelling<DispatcherKind> kDispatchers[] = {
    {DispatcherKind::kAllToAll, "alltoall"},
    {DispatcherKind::kAllGather, "allgather"},
    {DispatcherKind::kDeepEp, "deepep"},
    {DispatcherKind::kHybridEp, "hybridep"},
};
constexpr Spelling<CudaGraphs> kCudaGraphs[] = {
    {CudaGraphs::kNone, "none"},
    {CudaGraphs::kPerLayer, "per-layer", "local transformer_engine"},
    {CudaGraphs::kFullIteration, "full_iteration"},
};

template <class Enum>
std::span<const Spelling<Enum>> spellings();
// Frameworks name themselves.
template <>
std::span<const Spelling<Framework>> spellings() {
  static const std::vector<Spelling<Framework>> rows = [] {
    std::vector<Spelling<Framework>> all;
    for (const FrameworkFacts* facts : kFrameworkFacts) all.push_back({facts->id, facts->name, facts->words});
    return all;
  }();
  return rows;
}
// clang-format off
template <> std::span<const Spelling<DType>> spellings() { return kDTypes; }
template <> std::span<const Spelling<Fp8Recipe>> spellings() { return kFp8Recipes; }
template <> std::span<const Spelling<CpCommType>> spellings() { return kCpCommTypes; }
template <> std::span<const Spelling<PipelineSchedule>> spellings() { return kSchedules; }
template <> std::span<const Spelling<OptimizerKind>> spellings() { return kOptimizers; }
template <> std::span<const Spelling<OptimizerImpl>> spellings() { return kOptimizerImpls; }
template <> std::span<const Spelling<ShardingKind>> spellings() { return kShardings; }
template <> std::span<const Spelling<FsdpUnits>> spellings() { return kFsdpUnits; }
template <> std::span<const Spelling<OffloadTarget>> spellings() { return kOffloadTargets; }
template <> std::span<const Spelling<MegatronFsdpStrategy>> spellings() { return kStrategies; }
template <> std::span<const Spelling<RecomputeGranularity>> spellings() { return kGranularities; }
template <> std::span<const Spelling<RecomputeMethod>> spellings() { return kMethods; }
template <> std::span<const Spelling<AdapterKind>> spellings() { return kAdapters; }
template <> std::span<const Spelling<AdapterBias>> spellings() { return kAdapterBiases; }
template <> std::span<const Spelling<Implementation>> spellings() { return kImplementations; }
template <> std::span<const Spelling<AttentionBackend>> spellings() { return kAttentions; }
template <> std::span<const Spelling<LossKind>> spellings() { return kLosses; }
template <> std::span<const Spelling<DispatcherKind>> spellings() { return kDispatchers; }
template <> std::span<const Spelling<CudaGraphs>> spellings() { return kCudaGraphs; }
// clang-format on

bool same_word(std::string_view a, std::string_view b) {
  return equals_ignoring_case(replace(a, '-', '_'), replace(b, '-', '_'));
}

}  // namespace

template <class Enum>
std::string_view name_of(Enum value) {
  for (const Spelling<Enum>& row : spellings<Enum>())
    if (row.value == value) return row.name;
  return "unknown";
}

template <class Enum>
std::optional<Enum> from_name(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const Spelling<Enum>& row : spellings<Enum>()) {
    if (same_word(name, row.name)) return row.value;
    for (const std::string_view alias : split(row.aliases, ' '))
      if (!alias.empty() && same_word(name, alias)) return row.value;
  }
  return std::nullopt;
}

template <class Enum>
std::string choices() {
  std::vector<std::string> names;
  for (const Spelling<Enum>& row : spellings<Enum>()) names.emplace_back(row.name);
  return join(names, ", ");
}

#define PLIMSOLL_KNOB(Enum)                                       \
  template std::string_view name_of<Enum>(Enum);                  \
  template std::optional<Enum> from_name<Enum>(std::string_view); \
  template std::string choices<Enum>();
PLIMSOLL_KNOB(Framework)
PLIMSOLL_KNOB(DType)
PLIMSOLL_KNOB(Fp8Recipe)
PLIMSOLL_KNOB(CpCommType)
PLIMSOLL_KNOB(PipelineSchedule)
PLIMSOLL_KNOB(OptimizerKind)
PLIMSOLL_KNOB(OptimizerImpl)
PLIMSOLL_KNOB(ShardingKind)
PLIMSOLL_KNOB(FsdpUnits)
PLIMSOLL_KNOB(OffloadTarget)
PLIMSOLL_KNOB(MegatronFsdpStrategy)
PLIMSOLL_KNOB(RecomputeGranularity)
PLIMSOLL_KNOB(RecomputeMethod)
PLIMSOLL_KNOB(AdapterKind)
PLIMSOLL_KNOB(AdapterBias)
PLIMSOLL_KNOB(Implementation)
PLIMSOLL_KNOB(AttentionBackend)
PLIMSOLL_KNOB(LossKind)
PLIMSOLL_KNOB(DispatcherKind)
PLIMSOLL_KNOB(CudaGraphs)
#undef PLIMSOLL_KNOB

}  // namespace plimsoll::job
