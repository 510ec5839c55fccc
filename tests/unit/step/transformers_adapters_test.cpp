// SPDX-License-Identifier: Apache-2.0
// What PEFT trains of a model, counted by hand from its sizes (facts other-frameworks-memory.md 3.1, 3.5, 3.6).
#include <gtest/gtest.h>

#include "model/catalog.h"
#include "step/transformers/model.h"
#include "step/transformers/rank.h"

namespace plimsoll::step::transformers {
namespace {

constexpr std::int64_t kModelWidth = 4096, kVocabulary = 128256, kDepth = 32, kKeyWidth = 1024, kMlpWidth = 14336,
                       kLoraRank = 16;

job::Job adapted(const char* model, std::vector<std::string> targets) {
  job::Job job = job::defaults_for(job::Framework::kTransformers);
  job.model = model::find_model(model).value();
  job.cluster.gpu = cluster::find_gpu("h100").value();
  job.cluster.gpus = 1;
  job.batch.seq_length = 512;
  job.batch.micro_batch = 2;
  job.precision.params = job.precision.compute = job::DType::kBf16;
  job.adapter.kind = job::AdapterKind::kLora;
  job.adapter.rank = kLoraRank;
  job.adapter.targets = std::move(targets);
  return job;
}

Model model_of(const job::Job& job) { return make_model(job, whole_model(job)); }

struct Counts {
  std::int64_t trained = 0, frozen = 0, tensors = 0;
};

Counts counts_of(const job::Job& job) {
  const Model model = model_of(job);
  Counts counts;
  for (const Weight& w : model.weights) {
    (w.trainable ? counts.trained : counts.frozen) += w.elements;
    counts.tensors += w.trainable ? 1 : 0;
  }
  return counts;
}

std::int64_t peak_of(const job::Job& job, bool folded = true) {
  Tape tape(true);
  static_cast<void>(run_rank(job, tape, folded, 0));
  return tape.peak();
}

constexpr std::int64_t kQueryPair = kLoraRank * (kModelWidth + kModelWidth);
constexpr std::int64_t kDownPair = kLoraRank * (kMlpWidth + kModelWidth);

TEST(Adapters, OneLowRankPairForEachTarget) {
  EXPECT_EQ(counts_of(adapted("llama3-8b", {"q_proj", "down_proj"})).trained, kDepth * (kQueryPair + kDownPair));
}

TEST(Adapters, ChosenLayersAlone) {
  job::Job job = adapted("llama3-8b", {"q_proj"});
  job.adapter.layers = {0, 5, 31, 40};
  EXPECT_EQ(counts_of(job).trained, 3 * kQueryPair) << "layer 40 does not exist";
}

TEST(Adapters, RanksByName) {
  job::Job job = adapted("llama3-8b", {"q_proj", "down_proj"});
  job.adapter.ranks = {{"down_proj", 4}, {"layers.3.self_attn.q_proj", 64}};
  EXPECT_EQ(counts_of(job).trained, (kDepth - 1) * kQueryPair + 4 * kQueryPair + kDepth * kDownPair / 4);
  job.adapter.ranks = {{R"(model\.layers\.[0-9]\..*)", 32}};
  EXPECT_EQ(counts_of(job).trained, kDepth * (kQueryPair + kDownPair) + 10 * (kQueryPair + kDownPair))
      << "the first ten layers twice";
}

TEST(Adapters, ExcludedModulesHaveNone) {
  job::Job job = adapted("llama3-8b", {"q_proj", "down_proj"});
  job.adapter.excluded = {"down_proj"};
  EXPECT_EQ(counts_of(job).trained, kDepth * kQueryPair);
  job.adapter.excluded = {R"(.*layers\.(0|1)\.mlp.*)"};
  EXPECT_EQ(counts_of(job).trained, kDepth * kQueryPair + (kDepth - 2) * kDownPair);
}

TEST(Adapters, TargetsMayBeOnePattern) {
  EXPECT_EQ(counts_of(adapted("llama3-8b", {R"(.*self_attn\.(q|o)_proj)"})).trained, 2 * kDepth * kQueryPair);
  EXPECT_EQ(counts_of(adapted("llama3-8b", {R"(model\.layers\.1\d\..*q_proj)"})).trained, 10 * kQueryPair);
}

TEST(Adapters, SavedModulesAreCopiesBesideTheFrozenOnes) {
  const Counts plain = counts_of(adapted("llama3-8b", {"q_proj"}));
  job::Job job = adapted("llama3-8b", {"q_proj"});
  job.adapter.saved_modules = {"embed_tokens", "lm_head"};
  const Counts saved = counts_of(job);
  EXPECT_EQ(saved.trained - plain.trained, 2 * kVocabulary * kModelWidth);
  EXPECT_EQ(saved.frozen, plain.frozen);
  const Model model = model_of(job);
  const Weight& embedding = model.weights[static_cast<std::size_t>(model.embedding)];
  EXPECT_TRUE(embedding.trainable);
  EXPECT_EQ(embedding.width, 2) << "a copy in the dtype of the model, not in the adapters' fp32";
}

TEST(Adapters, ASavedModuleHasNoAdapter) {
  job::Job job = adapted("llama3-8b", {"q_proj", "down_proj"});
  job.adapter.saved_modules = {"mlp"};
  EXPECT_EQ(counts_of(job).trained, kDepth * (kQueryPair + 3 * kModelWidth * kMlpWidth));
}

TEST(Adapters, NormsAreSavedByTheEndsOfTheirNames) {
  job::Job job = adapted("llama3-8b", {"q_proj"});
  job.adapter.saved_modules = {"input_layernorm"};
  EXPECT_EQ(counts_of(job).trained, kDepth * (kQueryPair + kModelWidth));
  job.adapter.saved_modules = {"norm"};
  EXPECT_EQ(counts_of(job).trained, kDepth * kQueryPair + (2 * kDepth + 1) * kModelWidth)
      << "every layernorm ends in norm";
}

// Llama-3.2-1B: one table of 128256 x 2048 for both ends.
TEST(Adapters, TyingEndsWhereOneEndIsTrained) {
  constexpr std::int64_t kTable = kVocabulary * 2048;
  const Counts plain = counts_of(adapted("llama3.2-1b", {"q_proj"}));
  job::Job job = adapted("llama3.2-1b", {"q_proj"});
  const auto trained = [&](std::vector<std::string> saved, bool ties) {
    job.adapter.saved_modules = std::move(saved);
    job.adapter.ties_saved = ties;
    return counts_of(job).trained - plain.trained;
  };
  EXPECT_EQ(trained({"embed_tokens"}, false), kTable);
  EXPECT_FALSE(model_of(job).tied);
  EXPECT_EQ(trained({"lm_head"}, false), kTable);
  EXPECT_EQ(trained({"embed_tokens", "lm_head"}, false), 2 * kTable);
  EXPECT_EQ(trained({"embed_tokens", "lm_head"}, true), kTable);
  EXPECT_TRUE(model_of(job).tied);
  EXPECT_EQ(counts_of(job).frozen, plain.frozen) << "the table that both had stays";
}

TEST(Adapters, OutsideTheLayers) {
  EXPECT_EQ(counts_of(adapted("llama3-8b", {"lm_head"})).trained, kLoraRank * (kModelWidth + kVocabulary));
  EXPECT_EQ(counts_of(adapted("llama3-8b", {"embed_tokens"})).trained, kLoraRank * (kModelWidth + kVocabulary));
  EXPECT_EQ(counts_of(adapted("llama3-8b", {"all-linear"})).trained,
            kDepth * (2 * kQueryPair + 2 * kLoraRank * (kModelWidth + kKeyWidth) + 3 * kDownPair))
      << "all linears but the head";
}

TEST(Adapters, TrainedRowsOfTheEmbedding) {
  job::Job job = adapted("llama3-8b", {"q_proj"});
  job.adapter.trained_tokens = 10;
  const Counts counts = counts_of(job);
  EXPECT_EQ(counts.trained, kDepth * kQueryPair + 10 * kModelWidth);
  EXPECT_EQ(counts.frozen - counts_of(adapted("llama3-8b", {"q_proj"})).frozen, 10 * kModelWidth)
      << "as they were before";
}

// GPT-2's 12 layers of 768: biases of 2304, 768, 3072 and 768, and one of every LayerNorm.
TEST(Adapters, TrainedBiases) {
  job::Job job = adapted("gpt2", {"c_attn"});
  const std::int64_t plain = counts_of(job).trained;
  job.adapter.bias = job::AdapterBias::kAdapted;
  EXPECT_EQ(counts_of(job).trained - plain, 12 * 2304);
  job.adapter.bias = job::AdapterBias::kAll;
  EXPECT_EQ(counts_of(job).trained - plain, 12 * (2304 + 768 + 3072 + 768 + 2 * 768) + 768);
  job.adapter.bias = job::AdapterBias::kNone;
  job.adapter.own_bias = true;
  EXPECT_EQ(counts_of(job).trained - plain, 12 * 2304) << "lora_bias: one for every output of a target";
}

TEST(Adapters, AModelIn8BitsHasAByteForEachElementAndAScaleForEachRow) {
  job::Job narrow = adapted("llama3-8b", {"q_proj"});
  narrow.adapter.eight_bit_base = true;
  std::int64_t bytes = 0;
  Model model = model_of(narrow);
  for (const Weight& w : model.weights) bytes += w.quantized ? w.elements + 4 * w.out : 0;
  constexpr std::int64_t kElements =
      2 * kModelWidth * kModelWidth + 2 * kModelWidth * kKeyWidth + 3 * kModelWidth * kMlpWidth;
  constexpr std::int64_t kRows = 3 * kModelWidth + 2 * kKeyWidth + 2 * kMlpWidth;
  EXPECT_EQ(bytes, kDepth * (kElements + 4 * kRows));
}

TEST(Adapters, AnEightBitLinearKeepsItsInput) {
  job::Job four = adapted("llama3-8b", {"q_proj"});
  four.adapter.quantized_base = true;
  job::Job eight = adapted("llama3-8b", {"q_proj"});
  eight.adapter.eight_bit_base = true;
  constexpr std::int64_t kTokens = 2 * 512;
  constexpr std::int64_t kStored =
      kDepth * (2 * kModelWidth * kModelWidth + 2 * kModelWidth * kKeyWidth + 3 * kModelWidth * kMlpWidth);
  // Of every layer the inputs of attention and MLP and the product that down_proj takes: nothing else keeps those.
  constexpr std::int64_t kInputs = (kDepth - 1) * kTokens * 2 * (2 * kModelWidth + kMlpWidth);
  const std::int64_t weights = kStored - kStored * 9 / 16;
  EXPECT_GT(peak_of(eight) - peak_of(four), weights + kInputs * 9 / 10);
  EXPECT_LT(peak_of(eight) - peak_of(four), weights + kInputs * 11 / 10);
}

// The sums of folded runs come from one layer of each kind: layers that differ by their adapters are kinds of their
// own.
TEST(Adapters, FoldedRunsReachThePeakOfRecordedOnes) {
  std::vector<job::Job> jobs;
  for (const char* model : {"llama3.2-1b", "gpt2"}) {
    const bool gpt = std::string_view(model) == "gpt2";
    job::Job job = adapted(model, {gpt ? "c_attn" : "q_proj", gpt ? "c_proj" : "down_proj"});
    jobs.push_back(job);
    jobs.back().adapter.layers = {1, 2, 7};
    jobs.push_back(job);
    jobs.back().adapter.ranks = {{"layers.3.*", 64}, {"h.2.*", 64}};
    jobs.push_back(job);
    jobs.back().adapter.saved_modules = {"embed_tokens", "wte", "lm_head", "norm"};
    jobs.push_back(job);
    jobs.back().adapter.trained_tokens = 5;
    jobs.push_back(job);
    jobs.back().adapter.eight_bit_base = true;
    jobs.push_back(job);
    jobs.back().adapter.bias = job::AdapterBias::kAll;
    jobs.back().adapter.own_bias = true;
    jobs.push_back(job);
    jobs.back().preference_loss = jobs.back().reference_model = true;
    jobs.push_back(job);
    jobs.back().adapter = {};
    jobs.back().preference_loss = jobs.back().reference_model = true;
  }
  for (std::size_t i = 0; i < jobs.size(); ++i)
    for (const bool autocast : {false, true}) {
      jobs[i].precision.autocast = autocast;
      EXPECT_EQ(peak_of(jobs[i], true), peak_of(jobs[i], false)) << "job " << i << (autocast ? ", autocast" : "");
    }
}

// In fp32 12 bytes for every logit: the model's, those that the sequences send back, and all of these in one tensor.
TEST(Preference, BackwardHoldsThreeCopiesOfTheLogits) {
  job::Job job = adapted("llama3.2-1b", {"q_proj"});
  job.adapter = {};
  job.precision.autocast = true;
  job.recompute.granularity = job::RecomputeGranularity::kFull;
  job.preference_loss = true;
  job.batch.seq_length = 4096;
  const std::int64_t short_peak = peak_of(job);
  job.batch.seq_length *= 2;
  const std::int64_t logits = 2 * 4096 * kVocabulary;  // so many more
  const std::int64_t more = peak_of(job) - short_peak;
  EXPECT_GT(more, 12 * logits);
  EXPECT_LT(more, 13 * logits);
}

TEST(Preference, AReferencesLogitsStandBesideTheModels) {
  job::Job job = adapted("llama3.2-1b", {"q_proj"});
  job.recompute.granularity = job::RecomputeGranularity::kFull;
  job.preference_loss = true;
  job.precision.autocast = false;
  job.batch.micro_batch = 1;
  const std::int64_t alone = peak_of(job);
  job.reference_model = true;
  EXPECT_GE(peak_of(job), alone);
}

}  // namespace
}  // namespace plimsoll::step::transformers
