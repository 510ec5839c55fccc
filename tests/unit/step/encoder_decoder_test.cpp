// SPDX-License-Identifier: Apache-2.0
// Megatron's T5: the folded form and the walked one agree, and the second stack costs what its parts say.
#include <gtest/gtest.h>

#include "step/megatron/rank.h"
#include "support.h"

namespace plimsoll::step::test {
namespace {

job::Job t5() {
  job::Job job = llama_70b();
  model::Layer encoder = job.model.kinds.front();
  encoder.attention.heads = encoder.attention.kv_heads = 16;
  encoder.attention.head_dim = 64;
  encoder.ffn.width = 4096;
  encoder.encoder = true;
  model::Layer decoder = encoder;
  decoder.encoder = false;
  decoder.cross_attention = true;
  job.model.kinds = {encoder, decoder};
  job.model.layers = {0, 0, 0, 1, 1, 1};
  job.model.hidden = 1024;
  job.model.vocab = job.vocab_rows = 32768;
  job.model.tied_embeddings = job.model.head_bias = true;
  job.model_keys.model_class = job::ModelClass::kT5;
  job.cluster.gpus = 4;
  job.parallel.pipeline = job.parallel.virtual_pipeline = 1;
  job.batch.seq_length = 512;
  job.batch.decoder_length = 128;
  job.batch.micro_batch = 4;
  job.batch.global_batch = 8;
  job.kernels.loss = job::LossKind::kUnfused;
  return job;
}

std::int64_t peak(job::Job job, bool folded) {
  const Status completed = job::complete(job);
  EXPECT_TRUE(completed) << to_string(completed.error());
  const auto layout = job::pipeline_layout(job);
  Tape tape(!folded);
  (void)megatron::run_rank(job, *layout, 0, tape, folded);
  return tape.peak();
}

TEST(EncoderDecoder, folded_and_walked_agree) {
  for (const auto attention : {job::AttentionBackend::kFlash, job::AttentionBackend::kUnfused})
    for (const auto recompute : {job::RecomputeGranularity::kNone, job::RecomputeGranularity::kFull}) {
      job::Job job = t5();
      job.kernels.attention = attention;
      job.recompute.granularity = recompute;
      job.recompute.method = job::RecomputeMethod::kUniform;
      job.recompute.num_layers = 2;
      EXPECT_EQ(peak(job, false), peak(job, true));
    }
}

TEST(EncoderDecoder, a_longer_decoder_costs_more) {
  job::Job longer = t5();
  longer.batch.decoder_length = 512;
  EXPECT_GT(peak(longer, true), peak(t5(), true));
}

TEST(EncoderDecoder, pipeline_parallelism_is_refused_as_megatron_does) {
  job::Job job = t5();
  job.parallel.pipeline = 2;
  job.cluster.gpus = 8;
  const Status completed = job::complete(job);
  ASSERT_FALSE(completed);
  EXPECT_NE(to_string(completed.error()).find("not supported for T5"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::step::test
