// SPDX-License-Identifier: Apache-2.0
// What a layer of a Transformers model keeps from forward to backward, in bytes per token, against the
// sums of facts other-frameworks-memory.md 2.2, 2.3, 2.4 and 3.2. Sizes are chosen so that no tensor is
// rounded up to a block, except the two random states of each attention (512 bytes each).
#include <gtest/gtest.h>

#include "step/transformers/rank.h"

namespace plimsoll::step::transformers {
namespace {

constexpr std::int64_t kHidden = 512;
constexpr std::int64_t kWidth = 1536;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kSequence = 512;
constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kTokens = kSequence * kBatch;
constexpr std::int64_t kRandomStates = 2 * kBlockUnit;

job::Job llama(std::int64_t layers) {
  job::Job job;
  job.framework = job::Framework::kTransformers;
  job.kernels.implementation = job::Implementation::kTransformers;
  job.kernels.loss = job::LossKind::kTransformers;
  job.model.model_type = "llama";
  job.model.hidden = kHidden;
  job.model.vocab = job.vocab_rows = 4096;
  model::Layer layer;
  layer.attention.heads = kHeads;
  layer.attention.kv_heads = kKvHeads;
  layer.attention.head_dim = kHeadDim;
  layer.ffn.width = kWidth;
  job.model.kinds = {layer};
  job.model.layers.assign(static_cast<std::size_t>(layers), 0);
  job.batch.seq_length = kSequence;
  job.batch.micro_batch = kBatch;
  job.cluster.gpu.architecture = cluster::Architecture::kHopper;
  return job;
}

job::Job gpt2(std::int64_t layers) {
  job::Job job = llama(layers);
  job.model.model_type = "gpt2";
  job.model.norm = model::NormKind::kLayer;
  job.model.rope = false;
  job.model.tied_embeddings = true;
  job.model.position_rows = kSequence;
  job.model.hidden_dropout = 0.1;
  model::Layer& layer = job.model.kinds[0];
  layer.attention.kv_heads = kHeads;
  layer.attention.head_dim = kHidden / kHeads;
  layer.attention.fused_qkv = layer.attention.qkv_bias = layer.attention.out_bias = true;
  layer.ffn = {};
  layer.ffn.width = 4 * kHidden;
  layer.ffn.gated = false;
  layer.ffn.bias = true;
  layer.ffn.activation = model::Activation::kGeluNew;
  return job;
}

// Live bytes when backward of the first step begins, without the model's weights.
std::int64_t kept(const job::Job& job) {
  Tape tape(true);
  run_rank(job, tape, false);
  std::int64_t live = 0;
  std::int64_t weights = 0;
  std::size_t mark = 0;
  Phase phase = Phase::kModel;
  for (std::size_t i = 0; i < tape.events().size(); ++i) {
    while (mark < tape.marks().size() && tape.marks()[mark].event <= i) phase = tape.marks()[mark++].moment.phase;
    if (phase == Phase::kFirstBackward) break;
    live += tape.events()[i].bytes;
    if (phase == Phase::kModel) weights += tape.events()[i].bytes;
  }
  return live - weights;
}

// One more layer's share.
template <class Make>
std::int64_t kept_per_layer(Make make, void (*change)(job::Job&)) {
  job::Job two = make(2);
  job::Job three = make(3);
  change(two);
  change(three);
  return kept(three) - kept(two);
}

void nothing(job::Job&) {}
void autocast(job::Job& job) {
  job.precision.params = job::DType::kFp32;
  job.precision.autocast = true;
}
void checkpointing(job::Job& job) { job.recompute.granularity = job::RecomputeGranularity::kFull; }
void lora(job::Job& job) {
  job.adapter.kind = job::AdapterKind::kLora;
  job.adapter.rank = 16;
  job.adapter.targets = {"q_proj", "v_proj"};
}

TEST(TransformersLayer, KeepsTheTabledBytesInPureBf16) {
  const std::int64_t per_token =
      16 * kHidden + 4 * kHeads * kHeadDim + 4 * kKvHeads * kHeadDim + 8 * kWidth + 4 * kHeads + 8;
  EXPECT_EQ(kept_per_layer(llama, nothing), per_token * kTokens + kRandomStates);
}

TEST(TransformersLayer, KeepsWiderTensorsAndWeightCastsUnderAutocast) {
  const std::int64_t per_token =
      26 * kHidden + 4 * kHeads * kHeadDim + 4 * kKvHeads * kHeadDim + 8 * kWidth + 4 * kHeads + 8;
  const std::int64_t linear_weights =
      kHidden * (kHeads + 2 * kKvHeads) * kHeadDim + kHeads * kHeadDim * kHidden + 3 * kHidden * kWidth;
  EXPECT_EQ(kept_per_layer(llama, autocast), per_token * kTokens + 2 * linear_weights + kRandomStates);
}

TEST(TransformersLayer, KeepsOnlyItsInputWhenCheckpointed) {
  EXPECT_EQ(kept_per_layer(llama, checkpointing), 2 * kHidden * kTokens);
}

TEST(TransformersLayer, KeepsTheTabledBytesOfGpt2) {
  const std::int64_t per_token = 58 * kHidden + 4 * kHeads + 16;
  EXPECT_EQ(kept_per_layer(gpt2, nothing), per_token * kTokens + kRandomStates);
}

TEST(TransformersLayer, KeepsLessWithAFrozenBase) {
  // Norms keep their fp32 input, the MLP no product; each target its input in fp32 and its hidden.
  const std::int64_t per_token = 8 * kHidden + 4 * kHeads * kHeadDim + 4 * kKvHeads * kHeadDim + 4 * kHeads +
                                 6 * kWidth + 2 * (4 * kHidden + 4 * 16) + 8;
  EXPECT_EQ(kept_per_layer(llama, lora), per_token * kTokens + kRandomStates);
}

TEST(TransformersLayer, KeepsARepeatedMaskAndKeysWhenTheBatchIsPadded) {
  const std::int64_t flash = kept_per_layer(llama, nothing);
  const std::int64_t padded = kept_per_layer(llama, [](job::Job& job) { job.batch.padding_mask = true; });
  const std::int64_t mask = 2 * kBatch * kSequence * kSequence;
  const std::int64_t repeated = 4 * (kHeads - kKvHeads) * kHeadDim * kTokens;
  EXPECT_EQ(padded - flash, mask + repeated);
}

TEST(TransformersLayer, NeedsAMaskOnlyWhereTheSequenceReachesTheWindow) {
  const auto windowed = [](std::int64_t window) {
    job::Job job = llama(2);
    job.model.kinds[0].attention.sliding_window = window;
    return kept(job);
  };
  EXPECT_GT(windowed(kSequence), windowed(kSequence + 1));
  EXPECT_EQ(windowed(kSequence + 1), windowed(8 * kSequence));
}

TEST(TransformersLayer, MaterialisesScoresInEagerAttention) {
  const std::int64_t eager =
      kept_per_layer(llama, [](job::Job& job) { job.kernels.attention = job::AttentionBackend::kUnfused; });
  const std::int64_t scores = 6 * kBatch * kHeads * kSequence * kSequence;
  // q, repeated k and v, and the output projection's input instead of the kernel's tensors.
  const std::int64_t per_token = 16 * kHidden + 8 * kHeads * kHeadDim + 8 * kWidth + 8;
  EXPECT_EQ(eager, scores + per_token * kTokens);
}

TEST(TransformersLayer, LigerKeepsHalfOfTheNormsAndNoActivatedGate) {
  const std::int64_t per_token =
      8 * kHidden + 4 * kHeads * kHeadDim + 4 * kKvHeads * kHeadDim + 6 * kWidth + 4 * kHeads + 8;
  EXPECT_EQ(kept_per_layer(llama, [](job::Job& job) { job.kernels.liger = true; }),
            per_token * kTokens + kRandomStates);
}

TEST(TransformersLayer, TorchtitanUsesFusedNorms) {
  const std::int64_t per_token =
      8 * kHidden + 4 * kHeads * kHeadDim + 4 * kKvHeads * kHeadDim + 8 * kWidth + 4 * kHeads + 8;
  EXPECT_EQ(kept_per_layer(llama, [](job::Job& job) { job.kernels.implementation = job::Implementation::kTorchtitan; }),
            per_token * kTokens + kRandomStates);
}

TEST(TransformersLayer, QkNormsAddTheirFp32CopiesAndNormalisedValues) {
  const std::int64_t plain = kept_per_layer(llama, nothing);
  const std::int64_t normed = kept_per_layer(llama, [](job::Job& job) {
    job.model.model_type = "qwen3";
    job.model.kinds[0].attention.qk_norm = model::QkNorm::kPerHead;
  });
  EXPECT_EQ(normed - plain, (6 * (kHeads + kKvHeads) * kHeadDim + 4 * (kHeads + kKvHeads)) * kTokens);
}

TEST(TransformersLayer, GemmaNormsStayInFp32ToTheEnd) {
  const std::int64_t gemma = kept_per_layer(llama, [](job::Job& job) {
    job.model.model_type = "gemma";
    job.model.norm_in_fp32_to_the_end = true;
  });
  const std::int64_t per_token =
      20 * kHidden + 4 * kHeads * kHeadDim + 4 * kKvHeads * kHeadDim + 8 * kWidth + 4 * kHeads + 8;
  const std::int64_t shifted_weights = 2 * 4 * kHidden;
  EXPECT_EQ(gemma, per_token * kTokens + shifted_weights + kRandomStates);
}

}  // namespace
}  // namespace plimsoll::step::transformers
