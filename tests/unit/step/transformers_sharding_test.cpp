// SPDX-License-Identifier: Apache-2.0
// Sharded model state: FSDP2's timeline, FSDP1, DDP and ZeRO against facts other-frameworks-memory.md 1, 5, 6.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "job/pipeline_layout.h"
#include "step/transformers/rank.h"

namespace plimsoll::step::transformers {
namespace {

constexpr std::int64_t kHidden = 512;
constexpr std::int64_t kVocab = 4096;
constexpr std::int64_t kRanks = 8;

job::Job llama(std::int64_t layers) {
  job::Job job;
  job.kernels.implementation = job::Implementation::kTransformers;
  job.kernels.loss = job::LossKind::kTransformers;
  job.model.model_type = "llama";
  job.model.hidden = kHidden;
  job.model.vocab = job.vocab_rows = kVocab;
  model::Layer layer;
  layer.attention.heads = layer.attention.kv_heads = 8;
  layer.attention.head_dim = kHidden / 8;
  layer.ffn.width = 1536;
  job.model.kinds = {layer};
  job.model.layers.assign(static_cast<std::size_t>(layers), 0);
  job.batch.seq_length = 32;
  job.batch.micro_batch = 1;
  job.data_parallel = kRanks;
  job.cluster.gpu.architecture = cluster::Architecture::kHopper;
  return job;
}

job::Job fsdp2(std::int64_t layers) {
  job::Job job = llama(layers);
  job.framework = job::Framework::kFsdp2;
  job.sharding.kind = job::ShardingKind::kFsdp2;
  job.precision.params = job::DType::kFp32;
  return job;
}

job::Job zero(std::int64_t layers, int stage) {
  job::Job job = llama(layers);
  job.framework = job::Framework::kDeepSpeed;
  job.sharding.kind = job::ShardingKind::kZero;
  job.sharding.zero_stage = stage;
  job.sharding.reduce_bucket = 1'000'000;
  return job;
}

std::int64_t layer_elements() { return 4 * kHidden * kHidden + 3 * kHidden * 1536 + 2 * kHidden; }

struct Live {
  std::int64_t highest = 0;
  std::int64_t after = 0;
};
std::map<Phase, Live> by_phase(const job::Job& job) {
  Tape tape(true);
  run_rank(job, tape, false);
  std::map<Phase, Live> result;
  std::int64_t live = 0;
  std::size_t mark = 0;
  Phase phase = Phase::kModel;
  for (std::size_t i = 0; i < tape.events().size(); ++i) {
    while (mark < tape.marks().size() && tape.marks()[mark].event <= i) phase = tape.marks()[mark++].moment.phase;
    live += tape.events()[i].bytes;
    result[phase].highest = std::max(result[phase].highest, live);
    result[phase].after = live;
  }
  return result;
}

std::map<Name, std::int64_t> largest(const job::Job& job) {
  Tape tape(true);
  run_rank(job, tape, false);
  std::map<Name, std::int64_t> result;
  for (const Event& event : tape.events())
    if (event.bytes > 0) result[event.name] = std::max(result[event.name], event.requested);
  return result;
}

TEST(TransformersFsdp2, ShardsArePaddedOnTheirFirstDimension) {
  job::Job job = fsdp2(1);
  job.data_parallel = 7;  // divides neither the hidden size nor the vocabulary
  const auto phases = by_phase(job);
  const auto rows = [](std::int64_t n) { return (n + 6) / 7; };
  const std::int64_t elements = 2 * rows(kVocab) * kHidden + 4 * rows(kHidden) * kHidden + 2 * rows(1536) * kHidden +
                                rows(kHidden) * 1536 + 3 * rows(kHidden);
  EXPECT_NEAR(static_cast<double>(phases.at(Phase::kWrap).after), 4.0 * static_cast<double>(elements), 3 * 512.0);
}

TEST(TransformersFsdp2, AUnitIsGatheredThroughABufferOfItsOwnSize) {
  const auto sizes = largest(fsdp2(3));
  const std::int64_t root = 2 * kVocab * kHidden + kHidden;
  EXPECT_EQ(sizes.at(Name::kGatherMessage), 2 * root);
  EXPECT_EQ(sizes.at(Name::kReduceBucket), 4 * root);
}

TEST(TransformersFsdp2, GradientsStayShardedBetweenMicroBatches) {
  job::Job job = fsdp2(4);
  const std::int64_t once = by_phase(job).at(Phase::kBackward).after;
  job.micro_batches = 3;
  EXPECT_EQ(by_phase(job).at(Phase::kBackward).after, once);
}

TEST(TransformersFsdp2, WithoutSynchronisationUnshardedFp32GradientsWait) {
  job::Job job = fsdp2(4);
  job.micro_batches = 3;
  const std::int64_t sharded = by_phase(job).at(Phase::kForward).highest;
  job.sharding.sync_each_micro_batch = false;
  const std::int64_t whole = 4 * (4 * layer_elements());
  EXPECT_GT(by_phase(job).at(Phase::kForward).highest - sharded, whole);
}

TEST(TransformersFsdp2, UpdatesInBackwardLeaveNoGradient) {
  job::Job job = fsdp2(3);
  const std::int64_t usual = by_phase(job).at(Phase::kBackward).after;
  const std::int64_t updated = by_phase(job).at(Phase::kUpdate).after;
  job.optimizer.in_backward = true;
  EXPECT_GT(usual, updated);
  EXPECT_EQ(by_phase(job).at(Phase::kBackward).after, updated);
}

TEST(TransformersFsdp2, Float8IsGatheredInAByte) {
  const auto gathered = [](const job::Job& job) {
    Tape tape(true);
    run_rank(job, tape, false);
    std::int64_t bytes = 0;
    for (const Event& event : tape.events())
      if (event.bytes > 0 && event.name == Name::kUnshardedWeight) bytes += event.requested;
    return bytes;
  };
  job::Job job = fsdp2(2);
  job.kernels.implementation = job::Implementation::kTorchtitan;
  job.kernels.torch_compile = true;
  job.precision.fp8 = job::Fp8Recipe::kTensorwise;
  const std::int64_t wide = gathered(job);
  job.precision.fp8_param_gather = true;
  const std::int64_t narrow = gathered(job);
  job.kernels.float8_filter = {"feed_forward"};
  const std::int64_t filtered = gathered(job);
  EXPECT_LT(narrow, filtered);
  EXPECT_LT(filtered, wide);
}

TEST(TransformersFsdp2, NotReshardingKeepsEveryParameterIntoBackward) {
  job::Job job = fsdp2(6);
  const std::int64_t resharded = by_phase(job).at(Phase::kForward).after;
  job.sharding.reshard_after_forward = false;
  const std::int64_t root = 2 * kVocab * kHidden + kHidden;
  EXPECT_NEAR(static_cast<double>(by_phase(job).at(Phase::kForward).after - resharded),
              2.0 * static_cast<double>(6 * layer_elements() + root), 10'000.0);
}

TEST(TransformersFsdp2, OffloadLeavesNoShardOnTheGpu) {
  job::Job job = fsdp2(2);
  job.sharding.cpu_offload = true;
  Tape tape;
  const RankResult result = run_rank(job, tape, false);
  EXPECT_NEAR(static_cast<double>(result.host_bytes), 16.0 * static_cast<double>(result.parameters) / kRanks, 1.0);
  EXPECT_LT(tape.live(), std::int64_t{70} << 20);  // workspaces and token ids
}

TEST(TransformersFsdp2, SeparateUnitsNeverGatherEmbeddingAndHeadTogether) {
  job::Job job = fsdp2(2);
  job.model.vocab = job.vocab_rows = 8 * kVocab;  // larger than a layer
  job.sharding.units = job::FsdpUnits::kAccelerate;
  EXPECT_EQ(largest(job).at(Name::kGatherMessage), 2 * (8 * kVocab * kHidden + kHidden));
}

TEST(TransformersFsdp1, TheFlatGradientMeetsItsParts) {
  job::Job job = llama(3);
  job.sharding.kind = job::ShardingKind::kFsdp1;
  job.precision.params = job::DType::kFp32;
  job.sharding.reduce = job::DType::kBf16;
  const auto sizes = largest(job);
  EXPECT_EQ(sizes.at(Name::kUnshardedWeight), 2 * (2 * kVocab * kHidden + kHidden));
  job.sharding.units = job::FsdpUnits::kWholeModel;
  Tape tape;
  const RankResult result = run_rank(job, tape, false);
  EXPECT_EQ(largest(job).at(Name::kUnshardedWeight), 2 * result.parameters);
}

TEST(TransformersDdp, BucketsAreASecondCopyOfTheGradientsUnlessTheyAreViews) {
  job::Job job = llama(3);
  const std::int64_t alone = by_phase(job).at(Phase::kBackward).after;
  job.sharding.kind = job::ShardingKind::kDdp;
  Tape tape;
  const std::int64_t gradients = 2 * run_rank(job, tape, false).parameters;
  EXPECT_NEAR(static_cast<double>(by_phase(job).at(Phase::kBackward).after - alone), static_cast<double>(gradients),
              20'000.0);
  job.sharding.gradient_as_bucket_view = true;
  EXPECT_NEAR(static_cast<double>(by_phase(job).at(Phase::kBackward).after - alone), 0.0, 40'000.0);
}

TEST(TransformersZero, SteadyStateMatchesTheTableOfStages) {
  for (const int stage : {1, 2}) {
    Tape tape;
    const RankResult result = run_rank(zero(4, stage), tape, false);
    const double p = static_cast<double>(result.parameters);
    const double steady = static_cast<double>(tape.live() - (std::int64_t{64} << 20));
    EXPECT_NEAR(steady, 2 * p + 12 * p / kRanks, 0.01 * p);
  }
}

TEST(TransformersZero, StageTwoDropsGradientsThatStageOneKeeps) {
  const std::int64_t one = by_phase(zero(4, 1)).at(Phase::kBackward).after;
  const std::int64_t two = by_phase(zero(4, 2)).at(Phase::kBackward).after;
  Tape tape;
  const double p = static_cast<double>(run_rank(zero(4, 1), tape, false).parameters);
  EXPECT_NEAR(static_cast<double>(one - two), 2 * p - 2 * p / kRanks, 0.01 * p);
}

TEST(TransformersZero, OverlapDoublesTheReduceBucket) {
  job::Job job = zero(2, 2);
  job.sharding.reduce_bucket = 50'000'000;
  const std::int64_t single = by_phase(job).at(Phase::kBackward).highest;
  job.sharding.overlap_comm = true;
  EXPECT_EQ(by_phase(job).at(Phase::kBackward).highest - single, 100'000'256);
}

TEST(TransformersZero, StageThreeHoldsAPartitionOfEverything) {
  job::Job job = zero(4, 3);
  job.sharding.param_persistence = 0;
  job.sharding.max_reuse_distance = 0;
  job.sharding.prefetch_bucket = 0;
  Tape tape;
  const RankResult result = run_rank(job, tape, false);
  const double p = static_cast<double>(result.parameters);
  const double steady = static_cast<double>(tape.live() - (std::int64_t{64} << 20) - 2 * job.sharding.reduce_bucket);
  EXPECT_NEAR(steady, (2 + 2 + 12) * p / kRanks, 0.01 * p);
}

TEST(TransformersZero, ReuseKeepsGatheredParametersThroughTheStep) {
  job::Job job = zero(6, 3);
  job.sharding.prefetch_bucket = 0;
  job.sharding.max_reuse_distance = 0;
  const std::int64_t released = by_phase(job).at(Phase::kForward).after;
  job.sharding.max_reuse_distance = 1'000'000'000;
  EXPECT_GT(by_phase(job).at(Phase::kForward).after - released, 2 * 5 * layer_elements());
}

TEST(TransformersZero, OffloadMovesStatesToTheHostAndToNvme) {
  job::Job job = zero(2, 2);
  job.sharding.offload_optimizer = job::OffloadTarget::kCpu;
  Tape tape;
  RankResult result = run_rank(job, tape, false);
  const double p = static_cast<double>(result.parameters);
  EXPECT_NEAR(static_cast<double>(result.host_bytes), 16 * p / kRanks + 2.0 * kVocab * kHidden, 0.01 * p);
  EXPECT_LT(static_cast<double>(tape.live() - (std::int64_t{64} << 20)), 2.1 * p);

  job = zero(2, 3);
  job.sharding.offload_optimizer = job::OffloadTarget::kNvme;
  job.sharding.offload_param = job::OffloadTarget::kNvme;
  Tape other;
  result = run_rank(job, other, false);
  EXPECT_NEAR(static_cast<double>(result.nvme_bytes), 18 * p / kRanks, 0.01 * p);
}

job::Job titan(std::int64_t layers, std::int64_t stages, std::int64_t micro_batches) {
  job::Job job = fsdp2(layers);
  job.framework = job::Framework::kTorchtitan;
  job.kernels.implementation = job::Implementation::kTorchtitan;
  job.sharding.units = job::FsdpUnits::kTorchtitan;
  job.sharding.reshard_after_forward = false;
  job.sharding.sync_each_micro_batch = false;
  job.parallel.pipeline = stages;
  job.micro_batches = micro_batches;
  job.batch.seq_length = 512;
  return job;
}

TEST(TorchtitanStages, TheFirstStageHoldsAsManyMicroBatchesAsThereAreStages) {
  const auto highest = [](std::int64_t rank, std::int64_t micro_batches) {
    Tape tape;
    run_rank(titan(14, 4, micro_batches), tape, false, rank);
    return tape.peak();
  };
  const std::int64_t message = 512 * kHidden * 2;
  EXPECT_EQ(highest(0, 16) - highest(0, 8), 8 * message) << "a buffer for every message, and nothing else";
  EXPECT_EQ(highest(1, 16) - highest(1, 8), 2 * 8 * message) << "from both sides";
  EXPECT_GT(highest(1, 8), highest(2, 8)) << "four layers each";
}

TEST(TorchtitanStages, EmbeddingAndHeadCountAsALayerEachAndTheFirstStagesGetTheRest) {
  const auto layout = job::pipeline_layout(titan(16, 4, 8)).value();
  std::vector<std::int64_t> layers;
  for (const auto& rank : layout.ranks) layers.push_back(rank.front().num_layers);
  EXPECT_EQ(layers, (std::vector<std::int64_t>{4, 5, 4, 3}));
}

TEST(Torchtitan, AFoldedRunReachesThePeakOfTheRecordedOne) {
  for (const std::int64_t tensor : {1, 2, 4})
    for (const std::int64_t sequences : {1, 3})
      for (const std::int64_t every_nth : {0, 2, 3})
        for (const auto granularity : {job::RecomputeGranularity::kNone, job::RecomputeGranularity::kFull,
                                       job::RecomputeGranularity::kSelectiveOps})
          for (const bool reshards : {false, true}) {
            job::Job job = titan(5, 1, 2);
            job.parallel.tensor = tensor;
            job.parallel.sequence_parallel = true;
            job.batch.micro_batch = sequences;
            job.recompute.granularity = granularity;
            job.recompute.every_nth_layer = every_nth;
            job.sharding.reshard_after_forward = job.sharding.reshard_head = reshards;
            Tape recorded(true);
            Tape folded;
            run_rank(job, recorded, false);
            run_rank(job, folded, true);
            ASSERT_EQ(folded.peak(), recorded.peak()) << "TP " << tensor << ", " << sequences << " sequences, every "
                                                      << every_nth << ", " << static_cast<int>(granularity);
            ASSERT_EQ(folded.live(), recorded.live());
          }
}

TEST(TorchtitanStages, StagesShareTheModel) {
  std::int64_t sum = 0;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    Tape tape;
    sum += run_rank(titan(8, 4, 4), tape, false, rank).parameters;
  }
  Tape whole;
  EXPECT_EQ(sum, run_rank(titan(8, 1, 1), whole, false).parameters);
}

TEST(TorchtitanStages, FoldToThePeakOfTheRecordedRun) {
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    for (const bool checkpointed : {false, true}) {
      job::Job job = titan(8, 4, 6);
      if (checkpointed) job.recompute.granularity = job::RecomputeGranularity::kFull;
      Tape recorded(true);
      Tape folded;
      run_rank(job, recorded, false, rank);
      run_rank(job, folded, true, rank);
      EXPECT_EQ(folded.peak(), recorded.peak()) << rank;
      EXPECT_EQ(folded.live(), recorded.live()) << rank;
    }
  }
}

TEST(TorchtitanStages, TensorParallelismDividesWeightsAndSequenceParallelismTheResidualStream) {
  job::Job job = titan(4, 1, 1);
  Tape whole;
  const std::int64_t parameters = run_rank(job, whole, false).parameters;
  job.parallel.tensor = 4;
  Tape divided;
  const RankResult result = run_rank(job, divided, false);
  EXPECT_NEAR(static_cast<double>(result.parameters), static_cast<double>(parameters) / 4,
              0.02 * static_cast<double>(parameters));
  job.parallel.sequence_parallel = true;
  Tape sequence(true);
  Tape folded;
  run_rank(job, sequence, false);
  run_rank(job, folded, true);
  EXPECT_LT(sequence.peak(), divided.peak());
  EXPECT_EQ(folded.peak(), sequence.peak());
}

TEST(TorchtitanStages, SelectiveCheckpointingLiesBetweenFullAndNone) {
  job::Job job = titan(6, 1, 1);
  job.batch.seq_length = 2048;
  const auto highest = [&](job::RecomputeGranularity granularity) {
    job.recompute.granularity = granularity;
    Tape tape;
    run_rank(job, tape, true);
    return tape.peak();
  };
  const std::int64_t none = highest(job::RecomputeGranularity::kNone);
  const std::int64_t selective = highest(job::RecomputeGranularity::kSelectiveOps);
  const std::int64_t full = highest(job::RecomputeGranularity::kFull);
  EXPECT_LT(full, selective);
  EXPECT_LT(selective, none);
}

}  // namespace
}  // namespace plimsoll::step::transformers
