// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/checked.h"
#include "job/effective.h"
#include "model/parts.h"
#include "step/cublas_workspace.h"
#include "step/transformers/collector.h"

namespace plimsoll::step::transformers {

std::int64_t Model::parameters() const {
  std::int64_t sum = 0;
  for (const Weight& w : weights) sum += w.elements;
  return sum;
}

std::int64_t Model::stream_elements() const {
  const std::int64_t streams = architecture().streams != nullptr ? architecture().streams->count : 1;
  return streams * residual_tokens() * architecture().hidden;
}

job::Chunk whole_model(const job::Job& job) {
  job::Chunk chunk;
  chunk.num_layers = job.model.depth();
  chunk.has_embedding = chunk.has_loss = true;
  return chunk;
}

namespace {

// What modules_to_save trains is a copy of its own, so a tied head keeps the frozen weight or has a copy, too, unless
// PEFT is told to keep them tied (facts other-frameworks-memory.md 3.5).
void tie_head(const job::Job& job, Model& m, Collector& collect, std::int32_t frozen) {
  const bool embedding = m.embedding != frozen;
  const bool head = collect.saves_head();
  m.head.w = frozen;
  if (!embedding && !head) return;
  if (job.adapter.ties_saved) {
    if (!embedding) m.embedding = collect.trained_copy(frozen);
    m.head.w = m.embedding;
    return;
  }
  if (head) m.head.w = collect.trained_copy(frozen);
}

// What stands above the layers.
void list_ends(const job::Job& job, const job::Chunk& stage, std::int64_t rows, std::int32_t frozen_embedding,
               Collector& collect, Model& m) {
  const model::Architecture& a = job.model;
  const std::int64_t embedding = a.embedding_dim > 0 ? a.embedding_dim : a.hidden;
  if (a.embedding_dim > 0 && stage.has_embedding)
    m.project_in = collect.linear({"project_in"}, a.embedding_dim, a.hidden, false);
  if (!stage.has_loss) return;
  if (a.embedding_dim > 0) m.project_out = collect.linear({"project_out"}, a.hidden, a.embedding_dim, false);
  if (a.final_norm) m.final_norm = collect.norm(a.hidden, {"model.norm", "norm", "ln_f", "final_layer_norm"});
  if (a.streams != nullptr) collect.stream_ends(*a.streams);
  if (a.head == model::Head::kMasked) {
    m.transform = collect.linear({"vocab_transform"}, a.hidden, a.hidden, a.kinds.front().ffn.bias);
    m.transform_norm = collect.norm(a.hidden);
  }
  if (a.head == model::Head::kClasses) {
    m.head = collect.linear({"classifier"}, a.hidden, a.classes, true);
    m.tied = false;
    return;
  }
  if (a.head == model::Head::kScores) {
    m.tied = m.tied && a.keeps_language_head && stage.has_embedding;
    if (a.keeps_language_head)
      m.language_head = m.tied ? m.embedding : collect.table(rows, embedding, WeightKind::kHead);
    m.head = collect.linear({"score"}, a.hidden, a.classes, false);
    return;
  }
  // A tied head on a stage of its own is a copy of the embedding.
  m.tied = m.tied && stage.has_embedding;
  if (!m.tied) {
    collect.head(m.head, rows, embedding);
  } else {
    tie_head(job, m, collect, frozen_embedding < 0 ? m.embedding : frozen_embedding);
    m.tied = m.head.w == m.embedding;
    collect.adapt_head(m.head, rows, embedding);
  }
  if (a.head_bias || a.head == model::Head::kMasked) m.head.bias = collect.vector(rows);
}

}  // namespace

Model make_model(const job::Job& job, const job::Chunk& stage) {
  Model m;
  m.first_layer = stage.first_layer;
  m.has_embedding = stage.has_embedding;
  m.has_loss = stage.has_loss;
  m.job = &job;
  m.family = family_of(job);
  m.tied = job.model.tied_embeddings;
  m.batch = job.batch.micro_batch;
  m.sequence = job.batch.seq_length / std::max<std::int64_t>(1, job.parallel.context);
  if (job.model.encoder_depth() > 0) m.decoder_sequence = job.batch.decoder_length;
  m.autocast = job.precision.autocast;
  m.eager_attention = job.kernels.attention == job::AttentionBackend::kUnfused || m.family.eager;
  m.liger = job.kernels.liger;
  m.tensor = std::max<std::int64_t>(1, job.parallel.tensor);
  m.context = std::max<std::int64_t>(1, job.parallel.context);
  m.sequence_parallel = m.tensor > 1 && job.parallel.sequence_parallel;
  m.torchtitan = job.kernels.implementation == job::Implementation::kTorchtitan;
  m.caches_keys =
      job.model.vision != nullptr && !m.torchtitan && job.recompute.granularity == job::RecomputeGranularity::kNone;
  const bool hopper = job.cluster.gpu.is_hopper_or_newer();
  m.device.workspace = cublas_workspace(job);
  m.device.fused_attention = hopper;
  m.device.multiprocessors = job.cluster.gpu.is_blackwell() ? 148 : hopper ? 132 : 108;

  m.compiled = compiles(m);
  if (job.model.vision != nullptr && job::runs_tower(job) && stage.has_embedding) add_tower(job, m);
  Collector collect(job, m);
  m.width = collect.activation_width();
  const model::Architecture& a = job.model;
  // The fullest rank: DTensor gives the first ones a row more where the vocabulary does not divide.
  const std::int64_t rows = ceil_div(job.vocab_rows > 0 ? job.vocab_rows : a.vocab, m.tensor);
  const std::int64_t embedding = a.embedding_dim > 0 ? a.embedding_dim : a.hidden;
  std::int32_t frozen_embedding = -1;
  if (stage.has_embedding && a.patches > 0) {
    m.sequence = a.patches + 1;
    m.class_token = collect.vector(a.hidden);
    m.positions = collect.table(m.sequence, a.hidden, WeightKind::kEmbedding);
    m.patches = collect.linear({"projection"}, a.patch_values, a.hidden, true);
  } else if (stage.has_embedding && a.mel_bins > 0) {
    constexpr std::int64_t kKernel = 3;
    m.decoder_sequence = job.batch.decoder_length > 0 ? job.batch.decoder_length : m.sequence;
    m.sequence = a.source_positions;
    m.convolutions = {collect.linear({"conv1"}, kKernel * a.mel_bins, a.hidden, true),
                      collect.linear({"conv2"}, kKernel * a.hidden, a.hidden, true)};
    m.positions = collect.table(a.source_positions, a.hidden, WeightKind::kEmbedding);
    m.weights.back().trainable = false;
    m.embedding = collect.table(rows, embedding, WeightKind::kEmbedding);
  } else if (stage.has_embedding) {
    m.embedding = collect.table(rows, embedding, WeightKind::kEmbedding);
    frozen_embedding = m.embedding;
    if (collect.saves_embedding()) m.embedding = collect.trained_copy(m.embedding);
    collect.adapt_embedding(m.embedding_adapter, rows, embedding);
    m.token_rows = collect.trained_rows(embedding);
    if (a.position_rows > 0) m.positions = collect.table(a.position_rows, a.hidden, WeightKind::kEmbedding);
    if (a.token_types > 0) m.token_types = collect.table(a.token_types, a.hidden, WeightKind::kEmbedding);
    if (a.embedding_norm && !m.family.late_embedding_norm) m.embedding_norm = collect.norm(a.hidden);
  }
  if (m.embedding >= 0 && !m.tied) m.weights[static_cast<std::size_t>(m.embedding)].grad_parts = m.tensor;
  m.encoder_depth = a.encoder_depth();
  const std::int64_t heads = a.kinds.front().attention.heads;
  const auto relative = [&](std::size_t which) {
    if (a.relative_buckets <= 0) return;
    collect.behind_next_mixer([&collect, &m, &a, heads, which] {
      m.relative_bias[which] = collect.table(a.relative_buckets, heads, WeightKind::kEmbedding);
    });
  };
  relative(m.encoder_depth > 0 ? 0 : 1);
  const bool late_norm = a.embedding_norm && m.family.late_embedding_norm;
  for (std::int64_t i = 0; i < stage.num_layers; ++i) {
    if (i == m.encoder_depth && i > 0) {
      if (late_norm && stage.has_embedding) m.embedding_norm = collect.norm(a.hidden);
      if (a.final_norm) m.encoder_norm = collect.norm(a.hidden);
      if (a.position_rows > 0) m.decoder_positions = collect.table(a.position_rows, a.hidden, WeightKind::kEmbedding);
      if (a.embedding_norm && !late_norm) m.decoder_embedding_norm = collect.norm(a.hidden);
      relative(1);
    }
    collect.layer(a.layer(stage.first_layer + i));
  }
  if (late_norm && m.encoder_depth > 0) m.decoder_embedding_norm = collect.norm(a.hidden);
  list_ends(job, stage, rows, frozen_embedding, collect, m);
  m.unmatched = collect.unmatched();
  return m;
}

}  // namespace plimsoll::step::transformers
