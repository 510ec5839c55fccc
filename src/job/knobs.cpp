// SPDX-License-Identifier: Apache-2.0
// One table of spellings per enum. The first word of a row is the name we print; the words after it
// are what other frameworks write for the same thing. Case, '-' and '_' do not matter on reading.
#include "job/knobs.h"

#include <vector>

#include "job/framework.h"

namespace plimsoll::job {

namespace {

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
constexpr Spelling<StateDict> kStateDicts[] = {
    {StateDict::kSharded, "sharded", "sharded_state_dict"},
    {StateDict::kFull, "full", "full_state_dict"},
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

}  // namespace

// Frameworks name themselves.
std::span<const Spelling<Framework>> spellings_of(Framework) {
  static const std::vector<Spelling<Framework>> rows = [] {
    std::vector<Spelling<Framework>> all;
    for (const FrameworkFacts* facts : kFrameworkFacts) all.push_back({facts->id, facts->name, facts->words});
    return all;
  }();
  return rows;
}
std::span<const Spelling<DType>> spellings_of(DType) { return kDTypes; }
std::span<const Spelling<Fp8Recipe>> spellings_of(Fp8Recipe) { return kFp8Recipes; }
std::span<const Spelling<CpCommType>> spellings_of(CpCommType) { return kCpCommTypes; }
std::span<const Spelling<PipelineSchedule>> spellings_of(PipelineSchedule) { return kSchedules; }
std::span<const Spelling<OptimizerKind>> spellings_of(OptimizerKind) { return kOptimizers; }
std::span<const Spelling<OptimizerImpl>> spellings_of(OptimizerImpl) { return kOptimizerImpls; }
std::span<const Spelling<ShardingKind>> spellings_of(ShardingKind) { return kShardings; }
std::span<const Spelling<FsdpUnits>> spellings_of(FsdpUnits) { return kFsdpUnits; }
std::span<const Spelling<OffloadTarget>> spellings_of(OffloadTarget) { return kOffloadTargets; }
std::span<const Spelling<MegatronFsdpStrategy>> spellings_of(MegatronFsdpStrategy) { return kStrategies; }
std::span<const Spelling<RecomputeGranularity>> spellings_of(RecomputeGranularity) { return kGranularities; }
std::span<const Spelling<RecomputeMethod>> spellings_of(RecomputeMethod) { return kMethods; }
std::span<const Spelling<AdapterKind>> spellings_of(AdapterKind) { return kAdapters; }
std::span<const Spelling<AdapterBias>> spellings_of(AdapterBias) { return kAdapterBiases; }
std::span<const Spelling<StateDict>> spellings_of(StateDict) { return kStateDicts; }
std::span<const Spelling<Implementation>> spellings_of(Implementation) { return kImplementations; }
std::span<const Spelling<AttentionBackend>> spellings_of(AttentionBackend) { return kAttentions; }
std::span<const Spelling<LossKind>> spellings_of(LossKind) { return kLosses; }
std::span<const Spelling<DispatcherKind>> spellings_of(DispatcherKind) { return kDispatchers; }
std::span<const Spelling<CudaGraphs>> spellings_of(CudaGraphs) { return kCudaGraphs; }

}  // namespace plimsoll::job
