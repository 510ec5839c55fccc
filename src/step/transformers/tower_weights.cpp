// SPDX-License-Identifier: Apache-2.0
// The weights of a vision tower and its projector (facts other-frameworks-memory.md 2.11).
#include <algorithm>

#include "model/vision.h"
#include "step/transformers/collector.h"

namespace plimsoll::step::transformers {

namespace {

using model::Projector;
using model::TowerKind;
using model::Vision;

void freeze(std::vector<Weight>& weights, std::size_t first) {
  for (std::size_t i = first; i < weights.size(); ++i) weights[i].trainable = false;
}

// Below the layers.
void embedding_weights(Collector& collect, const Vision& v, Model& m) {
  const model::Architecture& a = v.tower;
  if (v.class_token) m.class_token = collect.vector(a.hidden);
  if (a.position_rows > 0) m.positions = collect.table(a.position_rows, a.hidden, WeightKind::kEmbedding);
  m.patches = collect.linear({"patch_embedding", "projection", "proj"}, a.patch_values, a.hidden, v.patch_bias);
  if (a.embedding_norm) m.embedding_norm = collect.norm(a.hidden);
}

ProjectorIds merger_weights(Collector& collect, const Vision& v, std::int64_t text, bool after_merge) {
  const std::int64_t merged = v.tower.hidden * v.merge * v.merge;
  ProjectorIds ids;
  ids.norm = collect.norm(after_merge ? merged : v.tower.hidden);
  ids.first = collect.linear({"linear_fc1", "0"}, merged, merged, true);
  ids.second = collect.linear({"linear_fc2", "2"}, merged, text, true);
  return ids;
}

ProjectorIds projector_weights(Collector& collect, const Vision& v, std::int64_t text) {
  const std::int64_t h = v.tower.hidden;
  const std::int64_t merged = h * v.merge * v.merge;
  ProjectorIds ids;
  switch (v.projector) {
    case Projector::kMlp:
      ids.first = collect.linear({"linear_1"}, h, text, v.projector_bias);
      ids.second = collect.linear({"linear_2"}, text, text, v.projector_bias);
      break;
    case Projector::kLinear:
      ids.first = collect.linear({"mm_projector"}, h, text, v.projector_bias);
      break;
    case Projector::kMerger:
      return merger_weights(collect, v, text, false);
    case Projector::kShuffledMlp:
      ids.norm = collect.norm(merged);
      if (ids.norm.bias < 0) ids.norm.bias = collect.vector(merged);  // LayerNorm, whatever the tower's norms are
      ids.first = collect.linear({"linear_1"}, merged, text, true);
      ids.second = collect.linear({"linear_2"}, text, text, true);
      break;
    case Projector::kShuffled:
      ids.first = collect.linear({"proj"}, merged, text, false);
      break;
    case Projector::kUnfolded:
      ids.norm = collect.norm(h);
      ids.merge = collect.linear({"merging_layer"}, merged, h, false);
      ids.first = collect.linear({"linear_1"}, h, text, v.projector_bias);
      ids.second = collect.linear({"linear_2"}, text, text, v.projector_bias);
      break;
    case Projector::kAdapter:
      ids.merge = collect.linear({"fc1"}, merged, v.adapter, false);
      ids.first = collect.linear({"fc2"}, v.adapter, v.adapter, false);
      ids.second = collect.linear({"linear_1"}, v.adapter, text, false);
      break;
    case Projector::kPooled:
      ids.first = collect.linear({"mm_input_projection_weight"}, h, text, false);
      ids.norm.w = collect.vector(h);
      break;
  }
  return ids;
}

// Pixels of an image as the batch has them.
std::pair<std::int64_t, std::int64_t> pixels_of(const job::Job& job, const Vision& v) {
  const job::Images& images = job.batch.images;
  return {images.height > 0 ? images.height : v.image_size, images.width > 0 ? images.width : v.image_size};
}

}  // namespace

void add_tower(const job::Job& job, Model& m) {
  const Vision& v = *job.model.vision;
  auto inner = std::make_shared<job::Job>(job);
  inner->model = v.tower;
  if (v.apart) inner->adapter = {};
  inner->trainable_layers = 0;  // those of the language model
  auto layers = std::make_shared<Model>();
  layers->job = inner.get();
  layers->family = family_of(*inner);
  layers->device = m.device;
  layers->autocast = m.autocast;
  layers->eager_attention = m.eager_attention;
  const auto [height, width] = pixels_of(job, v);
  const bool joined = v.joins_images() && v.kind != TowerKind::kPixtral;
  Tower& tower = m.tower;
  tower.images = m.batch * job.batch.images.per_sample * std::max<std::int64_t>(1, job.batch.images.tiles);
  layers->batch = tower.images;
  layers->sequence = v.patches(height, width) + (v.class_token ? 1 : 0);
  if (v.kind == TowerKind::kPixtral) {  // one sequence for all layers' code
    layers->sequence *= layers->batch;
    layers->batch = 1;
  }
  tower.chunk = joined ? v.patches(height, width) : 0;

  Collector collect(*inner, *layers);
  layers->width = collect.activation_width();
  layers->family.wide_rotation = joined;
  if (joined) layers->family.widening = Widening::kBefore;  // queries and keys turn in fp32
  embedding_weights(collect, v, *layers);
  const std::int64_t depth = v.tower.depth();
  for (std::int64_t i = 0; i < depth; ++i) {
    const std::size_t first = layers->weights.size();
    collect.layer(v.tower.layer(i));
    if (v.kind == TowerKind::kInternVl)
      tower.scales.push_back({collect.vector(v.tower.hidden), collect.vector(v.tower.hidden)});
    if (v.skips_last_layer && i + 1 == depth) freeze(layers->weights, first);
  }
  const std::size_t after = layers->weights.size();
  if (v.tower.final_norm) layers->final_norm = collect.norm(v.tower.hidden);
  if (v.pooling_head > 0) collect.vector(v.pooling_head);
  // What only a pooled token would need gets no gradient.
  if (v.projector == Projector::kMlp || v.apart) freeze(layers->weights, after);
  if (v.pooling_head > 0) layers->weights.back().trainable = false;
  for (Weight& w : layers->weights) w.layer = -1;
  if (job.batch.images.freeze_tower) freeze(layers->weights, 0);

  const std::size_t projector = layers->weights.size();
  if (v.newline) tower.newline = collect.vector(job.model.hidden);
  tower.projector = projector_weights(collect, v, job.model.hidden);
  for (std::size_t i = 0; i < v.deepstack.size(); ++i)
    tower.deepstack.push_back(merger_weights(collect, v, job.model.hidden, true));
  // Qwen's merger is part of its tower.
  if (job.batch.images.freeze_projector || (joined && job.batch.images.freeze_tower))
    freeze(layers->weights, projector);
  m.weights = std::move(layers->weights);
  tower.job = std::move(inner);
  tower.layers = std::move(layers);
}

}  // namespace plimsoll::step::transformers
