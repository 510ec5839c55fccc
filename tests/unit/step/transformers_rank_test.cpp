// SPDX-License-Identifier: Apache-2.0
// Whole steps of a Transformers rank: the loss's moments, what is left when a step ends, optimizers,
// evaluation, and the folded run against the recorded one over many random jobs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "step/transformers/launches.h"
#include "step/transformers/rank.h"

namespace plimsoll::step::transformers {
namespace {

job::Job llama(std::int64_t layers, std::int64_t hidden, std::int64_t vocab) {
  job::Job job;
  job.framework = job::Framework::kTransformers;
  job.kernels.implementation = job::Implementation::kTransformers;
  job.kernels.loss = job::LossKind::kTransformers;
  job.model.model_type = "llama";
  job.model.hidden = hidden;
  job.model.vocab = job.vocab_rows = vocab;
  model::Layer layer;
  layer.attention.heads = 8;
  layer.attention.kv_heads = 4;
  layer.attention.head_dim = hidden / 8;
  layer.ffn.width = 3 * hidden;
  job.model.kinds = {layer};
  job.model.layers.assign(static_cast<std::size_t>(layers), 0);
  job.batch.seq_length = 512;
  job.batch.micro_batch = 2;
  job.cluster.gpu.architecture = cluster::Architecture::kHopper;
  return job;
}

struct Finished {
  Tape tape{true};
  RankResult result;
};
Finished run(const job::Job& job) {
  Finished r;
  r.result = run_rank(job, r.tape, false);
  return r;
}
std::int64_t peak(const job::Job& job) {
  Tape tape;
  run_rank(job, tape, false);
  return tape.peak();
}

// Live bytes at the end of each phase and the highest while it lasted.
struct PhaseBytes {
  std::int64_t highest = 0;
  std::int64_t after = 0;
};
std::map<Phase, PhaseBytes> by_phase(const Tape& tape) {
  std::map<Phase, PhaseBytes> result;
  std::int64_t live = 0;
  std::size_t mark = 0;
  Phase phase = Phase::kModel;
  for (std::size_t i = 0; i < tape.events().size(); ++i) {
    while (mark < tape.marks().size() && tape.marks()[mark].event <= i) phase = tape.marks()[mark++].moment.phase;
    live += tape.events()[i].bytes;
    PhaseBytes& bytes = result[phase];
    bytes.highest = std::max(bytes.highest, live);
    bytes.after = live;
  }
  return result;
}

// Bytes of one kind of tensor, all of them ever allocated in a phase.
std::int64_t allocated(const Tape& tape, Phase wanted, Name name) {
  std::int64_t sum = 0;
  std::size_t mark = 0;
  Phase phase = Phase::kModel;
  for (std::size_t i = 0; i < tape.events().size(); ++i) {
    while (mark < tape.marks().size() && tape.marks()[mark].event <= i) phase = tape.marks()[mark++].moment.phase;
    if (phase == wanted && tape.events()[i].name == name && tape.events()[i].bytes > 0) sum += tape.events()[i].bytes;
  }
  return sum;
}

TEST(TransformersRank, TheLossReachesTenAndTwelveVocabularyBytesPerToken) {
  // A vocabulary this large makes both moments the peaks of their phases.
  const std::int64_t vocab = 65536;
  const job::Job job = llama(1, 256, vocab);
  const auto phases = by_phase(run(job).tape);
  const std::int64_t unit = vocab * 1024;
  const std::int64_t after_forward = phases.at(Phase::kForward).after;
  const std::int64_t small = 300'000;
  EXPECT_NEAR(static_cast<double>(phases.at(Phase::kForward).highest - after_forward), 6.0 * static_cast<double>(unit),
              static_cast<double>(small));
  EXPECT_NEAR(static_cast<double>(phases.at(Phase::kBackward).highest - after_forward), 8.0 * static_cast<double>(unit),
              static_cast<double>(small));
}

TEST(TransformersRank, EverythingOfAStepIsFreedWhenItEnds) {
  for (const bool autocast : {false, true}) {
    job::Job job = llama(3, 256, 2048);
    job.precision.autocast = autocast;
    if (autocast) job.precision.params = job::DType::kFp32;
    job.micro_batches = 2;
    const auto phases = by_phase(run(job).tape);
    EXPECT_EQ(phases.at(Phase::kFirstUpdate).after, phases.at(Phase::kUpdate).after);
  }
}

TEST(TransformersRank, StatesAppearInTheFirstOptimizerStep) {
  const job::Job job = llama(2, 256, 2048);
  const Finished r = run(job);
  EXPECT_EQ(allocated(r.tape, Phase::kUpdate, Name::kMoment), 0);
  EXPECT_GT(allocated(r.tape, Phase::kFirstUpdate, Name::kMoment), 2 * 2 * r.result.parameters);
}

TEST(TransformersRank, ATiedHeadIsThereForAMomentWhileBuilding) {
  job::Job job = llama(1, 256, 8192);
  job.model.tied_embeddings = true;
  const auto phases = by_phase(run(job).tape);
  const PhaseBytes& model = phases.at(Phase::kModel);
  EXPECT_EQ(model.highest - model.after, 2 * 8192 * 256);
}

TEST(TransformersRank, ATiedHeadsGradientWaitsForTheEmbeddings) {
  job::Job job = llama(1, 256, 65536);
  job.model.tied_embeddings = true;
  job.batch.seq_length = 16;  // so that the end of backward is its peak
  job.batch.micro_batch = 1;
  const auto phases = by_phase(run(job).tape);
  const PhaseBytes& backward = phases.at(Phase::kBackward);
  EXPECT_NEAR(static_cast<double>(backward.highest - backward.after), 2.0 * 2 * 65536 * 256, 200'000.0);
}

TEST(TransformersRank, ForeachAdamTakesOneMoreCopyOfTheWeights) {
  job::Job job = llama(2, 256, 2048);
  job.optimizer.impl = job::OptimizerImpl::kForeach;
  const Finished r = run(job);
  EXPECT_GE(allocated(r.tape, Phase::kUpdate, Name::kOptimizerTemp), 2 * r.result.parameters);
  job.optimizer.impl = job::OptimizerImpl::kFused;
  EXPECT_EQ(allocated(run(job).tape, Phase::kUpdate, Name::kOptimizerTemp), 0);
}

TEST(TransformersRank, EightBitStatesTakeAQuarterOfTheirThirtyTwoBitSize) {
  job::Job job = llama(2, 256, 256);
  job.optimizer.kind = job::OptimizerKind::kAdam8bit;
  const Finished small = run(job);
  job.optimizer.kind = job::OptimizerKind::kAdam;
  job.precision.params = job::DType::kFp32;
  job.precision.compute = job::DType::kFp32;
  const Finished full = run(job);
  const std::int64_t embedding = 256 * 256;
  const std::int64_t matrices = full.result.parameters - embedding;
  const double eight_bit = static_cast<double>(allocated(small.tape, Phase::kFirstUpdate, Name::kMoment));
  EXPECT_NEAR(eight_bit, 2.03 * static_cast<double>(matrices) + 8.0 * static_cast<double>(embedding), 120'000.0);
}

TEST(TransformersRank, PagedStatesLiveOutsideTorch) {
  job::Job job = llama(2, 512, 4096);
  job.optimizer.kind = job::OptimizerKind::kAdam8bit;
  EXPECT_EQ(run(job).result.outside_bytes, 0);
  job.optimizer.paged = true;
  EXPECT_GT(run(job).result.outside_bytes, 2 * 3 * 512 * 1536);
}

TEST(TransformersRank, EvaluationKeepsTheLogitsOfItsBatches) {
  job::Job job = llama(1, 256, 32768);
  job.batch.eval_micro_batch = 4;
  job.batch.eval_seq_length = 512;
  job.batch.eval_logits_fp32 = true;
  const auto highest = [&](std::int64_t batches) {
    job.batch.eval_batches_kept = batches;
    return by_phase(run(job).tape).at(Phase::kEvaluation).highest;
  };
  const std::int64_t logits = std::int64_t{4} * 32768 * 4 * 512;
  EXPECT_EQ(highest(6) - highest(5), logits);
  EXPECT_EQ(highest(100) - highest(50), 50 * logits);
}

TEST(TransformersRank, AccumulationKeepsGradientsDuringForward) {
  job::Job job = llama(2, 512, 2048);
  job.batch.seq_length = 64;
  const std::int64_t once = by_phase(run(job).tape).at(Phase::kForward).highest;
  job.micro_batches = 4;
  const Finished r = run(job);
  EXPECT_GE(by_phase(r.tape).at(Phase::kForward).highest - once, 2 * r.result.parameters);
}

TEST(TransformersRank, MemoryNeverFallsWhenTheBatchGrows) {
  for (const bool checkpointed : {false, true}) {
    job::Job job = llama(3, 256, 4096);
    if (checkpointed) job.recompute.granularity = job::RecomputeGranularity::kFull;
    std::int64_t before = 0;
    for (std::int64_t batch = 1; batch <= 6; ++batch) {
      job.batch.micro_batch = batch;
      const std::int64_t now = peak(job);
      EXPECT_GE(now, before);
      before = now;
    }
  }
}

TEST(TransformersRank, WorkspacesAreSmallerBeforeHopper) {
  job::Job job = llama(1, 256, 2048);
  const auto workspaces = [&] {
    const Finished r = run(job);
    return allocated(r.tape, Phase::kFirstForward, Name::kCublas) +
           allocated(r.tape, Phase::kFirstBackward, Name::kCublas);
  };
  EXPECT_EQ(workspaces(), std::int64_t{64} << 20);
  job.cluster.gpu.architecture = cluster::Architecture::kAmpere;
  EXPECT_EQ(workspaces(), 2 * (std::int64_t{8} << 20) + 2 * (std::int64_t{128} << 10));
}

TEST(TransformersRank, LigerNeverHoldsAllLogits) {
  job::Job job = llama(1, 256, 65536);
  const std::int64_t plain = peak(job);
  job.kernels.liger = true;
  job.kernels.loss = job::LossKind::kLiger;
  EXPECT_LT(peak(job) + std::int64_t{8} * 65536 * 1024, plain);
}

// One job of the space that folding must cover.
job::Job random_job(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<std::int64_t> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(random() % choices.size()));
  };
  const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
  job::Job job = llama(pick({1, 2, 3, 5}), pick({128, 256, 384}), pick({1000, 4096}));
  model::Layer& layer = job.model.kinds[0];
  layer.attention.kv_heads = pick({1, 2, 8});
  job.model.tied_embeddings = chance(40);
  switch (random() % 8) {
    case 0:
      job.model.model_type = "qwen3";
      layer.attention.qk_norm = model::QkNorm::kPerHead;
      break;
    case 1:
      job.model.model_type = "gemma2";
      job.model.norm_in_fp32_to_the_end = true;
      layer.norms = 4;
      job.model.final_softcap = true;
      break;
    case 2:
      job.model.model_type = "phi3";
      layer.attention.fused_qkv = layer.ffn.fused_gate_up = true;
      break;
    case 3:
      job.model.model_type = "gpt_neox";
      job.model.norm = model::NormKind::kLayer;
      layer.attention.kv_heads = layer.attention.heads;
      layer.attention.fused_qkv = layer.attention.qkv_bias = layer.ffn.bias = true;
      layer.ffn.gated = false;
      layer.ffn.activation = model::Activation::kGelu;
      layer.parallel_block = true;
      break;
    case 4:
      job.model.model_type = "mixtral";
      layer.ffn.experts = 4;
      layer.ffn.experts_per_token = 2;
      layer.ffn.expert_width = 256;
      layer.ffn.width = 0;
      break;
    default:
      break;
  }
  if (chance(30)) {  // two kinds of layers in turn
    job.model.kinds.push_back(job.model.kinds[0]);
    job.model.kinds[1].attention.sliding_window = 64;
    for (std::size_t i = 0; i < job.model.layers.size(); ++i) job.model.layers[i] = i % 2;
  }
  job.batch.seq_length = pick({32, 100, 256});
  job.batch.micro_batch = pick({1, 2, 3});
  job.batch.padding_mask = chance(20);
  job.micro_batches = pick({1, 1, 2, 4});
  if (chance(40)) {
    job.precision.autocast = true;
    if (chance(70)) job.precision.params = job::DType::kFp32;
  }
  if (chance(40)) job.recompute.granularity = job::RecomputeGranularity::kFull;
  if (chance(20)) job.kernels.attention = job::AttentionBackend::kUnfused;
  if (chance(25)) {
    job.adapter.kind = job::AdapterKind::kLora;
    job.adapter.targets = chance(50) ? std::vector<std::string>{"all-linear"} : std::vector<std::string>{"v_proj"};
    job.adapter.dropout = chance(30) ? 0.1 : 0;
  } else if (chance(50)) {
    job.sharding.kind = static_cast<job::ShardingKind>(1 + random() % 4);
    job.data_parallel = pick({2, 8});
    job.sharding.zero_stage = static_cast<int>(random() % 4);
    job.sharding.reduce_bucket = 100'000;
    job.sharding.reshard_after_forward = chance(70);
    job.sharding.sync_each_micro_batch = chance(50);
    job.sharding.units = chance(50) ? job::FsdpUnits::kLayersAndRoot : job::FsdpUnits::kAccelerate;
    const bool fsdp = job.sharding.kind == job::ShardingKind::kFsdp2 || job.sharding.kind == job::ShardingKind::kFsdp1;
    if (fsdp) {
      job.precision.autocast = false;
      job.precision.params = job::DType::kFp32;
    }
  }
  job.optimizer.impl = static_cast<job::OptimizerImpl>(random() % 3);
  if (chance(20)) {
    job.batch.eval_micro_batch = pick({1, 4});
    job.batch.eval_seq_length = 128;
    job.batch.eval_batches_kept = pick({0, 3});
  }
  if (chance(20)) job.trainable_layers = pick({1, -1});
  if (chance(15)) {
    job.model.head = model::Head::kScores;
    job.model.classes = pick({1, 2});
    job.model.keeps_language_head = chance(50);
    if (!job.model.keeps_language_head) job.model.tied_embeddings = false;
  } else if (chance(15)) {
    job.teacher = std::make_shared<const model::Architecture>(job.model);
  }
  return job;
}

TEST(TransformersRank, AFoldedRunReachesThePeakOfTheRecordedOne) {
  std::mt19937 random(20261115);
  for (int i = 0; i < 400; ++i) {
    const job::Job job = random_job(random);
    Tape recorded(true);
    Tape folded;
    const RankResult full = run_rank(job, recorded, false);
    const RankResult fast = run_rank(job, folded, true);
    ASSERT_EQ(folded.peak(), recorded.peak())
        << "job " << i << " " << job.model.model_type << " kinds " << job.model.kinds.size() << " depth "
        << job.model.depth() << " sharding " << static_cast<int>(job.sharding.kind) << " lora "
        << static_cast<int>(job.adapter.kind) << " recompute " << static_cast<int>(job.recompute.granularity);
    ASSERT_EQ(folded.live(), recorded.live()) << "job " << i;
    ASSERT_EQ(fast.parameters, full.parameters);
  }
}

std::int64_t of_category(const job::Job& job, Category wanted) {
  const Finished r = run(job);
  std::int64_t live = 0;
  std::int64_t highest = 0;
  for (const Event& event : r.tape.events()) {
    if (category_of(event.name) != wanted) continue;
    live += event.bytes;
    highest = std::max(highest, live);
  }
  return highest;
}

// What is not trained has neither gradients nor states; below the lowest trained layer nothing is kept, above the
// highest one the gradient passes through.
TEST(TransformersRank, ChosenLayersTakeLessThanAll) {
  job::Job job = llama(8, 512, 8192);
  job.recompute.granularity = job::RecomputeGranularity::kNone;
  const std::int64_t all = peak(job);
  const std::int64_t states = of_category(job, Category::kOptimizer);
  const std::int64_t kept = of_category(job, Category::kActivations);
  job.trainable_layers = 2;
  EXPECT_LT(peak(job), all);
  EXPECT_LT(of_category(job, Category::kOptimizer), states / 4);
  const std::int64_t last = of_category(job, Category::kActivations);
  EXPECT_LT(last, kept);
  job.trainable_layers = -2;
  EXPECT_LT(of_category(job, Category::kOptimizer), states / 4);
  EXPECT_GT(of_category(job, Category::kActivations), last);
  job.trainable_layers = 8;
  const std::int64_t layers = peak(job);
  EXPECT_LT(layers, all);  // the embedding and the head are not trained
}

// An expression chooses among the names of all parameters; what stands below the lowest chosen one keeps nothing.
TEST(TransformersRank, ChosenParametersHaveStatesAndOthersNone) {
  job::Job job = llama(8, 512, 8192);
  const auto states = [&job](std::vector<std::string> names) {
    job.trainable_parameters = std::move(names);
    return of_category(job, Category::kOptimizer);
  };
  const std::int64_t all = states({});
  const std::int64_t down = states({R"(model\.layers\.7\.mlp\.down_proj)"});
  EXPECT_EQ(states({"model.layers.[4-7].mlp.down_proj"}), 4 * down);
  EXPECT_EQ(states({"model.layers.7.mlp.down_proj", "model.layers.6.mlp.down_proj"}), 2 * down);
  EXPECT_EQ(states({"model", "lm_head"}), all);
  const std::int64_t above = of_category(job, Category::kActivations);
  job.trainable_parameters = {"lm_head"};
  EXPECT_LT(of_category(job, Category::kActivations), above / 2);
}

TEST(TransformersRank, AHeadOfScoresHasNoLogitsOfTheVocabulary) {
  job::Job job = llama(2, 256, 65536);
  const std::int64_t language = peak(job);
  job.model.head = model::Head::kScores;
  job.model.classes = 1;
  const std::int64_t scores = peak(job);
  const std::int64_t logits = 2 * job.tokens() * 65536;
  EXPECT_LT(scores + 2 * logits, language);
  job.model.keeps_language_head = true;  // and an fp32 copy of them
  const std::int64_t beside = peak(job);
  EXPECT_GT(beside, scores + 2 * logits);
  EXPECT_LE(beside, language);
}

TEST(TransformersRank, ATeachersLogitsStandAtTheLoss) {
  job::Job job = llama(2, 256, 65536);
  const std::int64_t alone = peak(job);
  job.teacher = std::make_shared<const model::Architecture>(job.model);
  const std::int64_t logits = job.tokens() * 65536;
  EXPECT_GE(peak(job), alone + 4 * logits);
  EXPECT_LE(peak(job), alone + 4 * logits + 2 * logits + 4 * logits);
}

TEST(TransformersRank, ATeacherReadsEveryMicroBatchOnce) {
  job::Job job = llama(2, 256, 4096);
  const StepLaunches alone = launches_of(job);
  job.teacher = std::make_shared<const model::Architecture>(job.model);
  const StepLaunches taught = launches_of(job);
  // Query, key, value, output, gate, up and down of two layers, and the head.
  EXPECT_EQ(taught.ends.forward.products.size(), alone.ends.forward.products.size() + 2 * 7 + 1);
  EXPECT_EQ(taught.ends.backward.products.size(), alone.ends.backward.products.size());
}

TEST(TransformersRank, ChosenAnswersHaveALossOfTheirOwn) {
  job::Job job = llama(2, 256, 65536);
  job.batch.micro_batch = 2;
  job.preference_loss = true;
  const std::int64_t compared = peak(job);
  job.chosen_loss = true;
  // The log-softmax of the chosen half stays, its gradient meets that of the comparison at their logits; what is logged
  // of DPO is not.
  const std::int64_t half = job.tokens() / 2 * 65536 * 2;
  EXPECT_GT(peak(job), compared);
  EXPECT_LE(peak(job), compared + 3 * half);
}

TEST(TransformersRank, FreesNothingTwice) {
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    const Finished r = run(random_job(random));
    std::map<std::uint32_t, bool> alive;
    std::int64_t live = 0;
    for (const Event& event : r.tape.events()) {
      live += event.bytes;
      ASSERT_GE(live, 0);
      if (event.bytes > 0) alive[event.id] = true;
      if (event.bytes < 0) {
        ASSERT_TRUE(alive[event.id]) << "job " << i;
        alive[event.id] = false;
      }
    }
  }
}

// Of the cache, where a backward begins.
std::int64_t empties(const Tape& tape) {
  return std::count_if(tape.marks().begin(), tape.marks().end(), [](const Mark& mark) {
    const Phase phase = mark.moment.phase;
    return mark.empties_cache && (phase == Phase::kFirstBackward || phase == Phase::kBackward);
  });
}

TEST(TransformersRank, torch_empty_cache_steps_empties_behind_the_forward_of_every_micro_batch) {
  job::Job job = llama(2, 512, 4096);
  job.micro_batches = 2;
  EXPECT_EQ(empties(run(job).tape), 0);
  job.kernels.empty_cache_steps = 1;
  EXPECT_EQ(empties(run(job).tape), 4);
  job.kernels.empty_cache_steps = 7;  // of the two steps that are walked the first
  EXPECT_EQ(empties(run(job).tape), 2);
}

TEST(TransformersRank, a_resumed_run_has_its_states_before_the_first_step) {
  job::Job job = llama(2, 512, 4096);
  job.cluster.gpus = 1;
  const auto fresh = by_phase(run(job).tape);
  job.checkpoint.resumes = true;
  const Finished resumed = run(job);
  const auto phases = by_phase(resumed.tape);
  const std::int64_t states = phases.at(Phase::kOptimizer).after - fresh.at(Phase::kModel).after;
  EXPECT_EQ(states, fresh.at(Phase::kUpdate).after - fresh.at(Phase::kModel).after -
                        (phases.at(Phase::kUpdate).after - phases.at(Phase::kOptimizer).after));
  EXPECT_EQ(resumed.result.host_bytes, states);
  // Its first forward is as full as every later one of a run that was not resumed.
  EXPECT_EQ(phases.at(Phase::kForward).highest, fresh.at(Phase::kForward).highest);
  EXPECT_GT(phases.at(Phase::kFirstForward).highest, fresh.at(Phase::kFirstForward).highest);
  job.cluster.gpus = job.data_parallel = 2;  // each reads them on its own device
  EXPECT_EQ(run(job).result.host_bytes, 0);
}

TEST(TransformersRank, fsdp2_makes_states_with_a_step_on_zeros_where_it_resumes) {
  job::Job job = llama(2, 512, 4096);
  job.sharding.kind = job::ShardingKind::kFsdp2;
  job.cluster.gpus = job.data_parallel = 4;
  job.checkpoint.resumes = true;
  const auto phases = by_phase(run(job).tape);
  const PhaseBytes loading = phases.at(Phase::kOptimizer);
  const std::int64_t shards = phases.at(Phase::kWrap).after;
  EXPECT_GE(loading.highest - loading.after, shards * 95 / 100);  // gradients of the shards' own size, gone again
  EXPECT_GT(loading.after, 2 * shards);
}

TEST(TransformersRank, a_full_state_dict_is_the_larger_of_weights_and_states_on_rank_0) {
  job::Job job = llama(2, 512, 4096);
  job.sharding.kind = job::ShardingKind::kFsdp2;
  job.cluster.gpus = job.data_parallel = 4;
  EXPECT_EQ(run(job).result.rank0_bytes, 0);
  job.checkpoint.saved = job::StateDict::kFull;
  const Finished saved = run(job);
  EXPECT_NEAR(static_cast<double>(saved.result.rank0_bytes), 8.0 * static_cast<double>(saved.result.parameters),
              0.02 * 8.0 * static_cast<double>(saved.result.parameters));
  job.sharding.kind = job::ShardingKind::kDdp;  // nothing is brought together
  EXPECT_EQ(run(job).result.rank0_bytes, 0);
}

}  // namespace
}  // namespace plimsoll::step::transformers
