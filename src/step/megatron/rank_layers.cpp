// SPDX-License-Identifier: Apache-2.0
#include "step/megatron/rank_layers.h"

#include <algorithm>

namespace plimsoll::step::megatron {

RankLayers::RankLayers(const job::Job& job, ProfileStore* store)
    : job_(job),
      choices_(choices_of(job)),
      end_sizes_(megatron::end_sizes(job)),
      ends_(choices_, end_sizes_),
      decoder_end_sizes_(job.model.encoder_depth() > 0 ? megatron::end_sizes(at_decoder(job)) : end_sizes_),
      decoder_ends_(choices_, decoder_end_sizes_),
      store_(store) {
  if (store_ != nullptr) stored_ends_ = &store_->ends(choices_, end_sizes_);
  quantised_ = job.precision.fp8 != job::Fp8Recipe::kNone || job.precision.fp4;
  kind_index_.assign(job.model.kinds.size() * 8, nullptr);
}

LayerKind* RankLayers::kind_of(std::int64_t layer, bool moves) {
  return kind_at(job_.model.layers[static_cast<std::size_t>(layer)], layer, moves);
}

std::vector<LayerKind*> RankLayers::mtp_kinds(const job::Chunk& chunk) {
  std::vector<LayerKind*> kinds;
  if (chunk.mtp_layers == 0) return kinds;
  for (const std::uint8_t kind : job_.model.mtp_depth()) kinds.push_back(kind_at(kind, job_.model.depth() - 1, true));
  return kinds;
}

LayerKind* RankLayers::kind_at(std::uint8_t model_kind, std::int64_t layer, bool moves) {
  const job::Precision& p = job_.precision;
  const bool edge = p.first_last_layers_bf16 &&
                    (layer < p.bf16_layers_at_start || layer >= job_.model.depth() - p.bf16_layers_at_end);
  const bool in_bf16 = quantised_ && edge;
  // cpu_offloading moves the first layers' activations (PP is 1 then); fine-grained offload acts in all.
  const bool whole_layer = job_.offload.activations && layer < job_.offload.activation_layers;
  const OffloadScope offload = whole_layer                          ? OffloadScope::kLayer
                               : moves && job_.offload.fine_grained ? OffloadScope::kModules
                                                                    : OffloadScope::kNone;
  const std::size_t index =
      std::size_t{model_kind} * 8 + (moves ? 4U : 0U) + (in_bf16 ? 2U : 0U) + (whole_layer ? 1U : 0U);
  LayerKind*& kind = kind_index_[index];
  if (kind != nullptr) return kind;
  const LayerSizes sizes = layer_sizes(job_, job_.model.kinds[model_kind], in_bf16);
  if (store_ != nullptr) {
    kind = &store_->layer(choices_, sizes, offload);
  } else {
    owned_kinds_.push_back(std::make_unique<LayerKind>(choices_, sizes, offload));
    kind = owned_kinds_.back().get();
  }
  used_kinds_.push_back(kind);
  return kind;
}

bool RankLayers::is_uniform() const {
  return job_.model.kinds.size() == 1 && !job_.precision.first_last_layers_bf16 && !job_.offload.activations &&
         !job_.offload.fine_grained;
}

ChunkBuilder RankLayers::builder(const job::Chunk& chunk, bool folded) {
  std::vector<LayerKind*> kinds;
  kinds.reserve(static_cast<std::size_t>(chunk.num_layers));
  // activation_offload_fraction keeps the last groups of every chunk on the GPU (fine_grained_activation_offload.py of
  // Megatron core); every layer has the same groups.
  const auto stay = static_cast<std::int64_t>(static_cast<double>(chunk.num_layers) * (1 - job_.offload.fraction));
  if (is_uniform() && chunk.num_layers > 0)
    kinds.assign(static_cast<std::size_t>(chunk.num_layers), kind_of(chunk.first_layer, true));
  else
    for (std::int64_t i = 0; i < chunk.num_layers; ++i)
      kinds.push_back(kind_of(chunk.first_layer + i, i < chunk.num_layers - stay));
  const Ends* const decoder_ends = job_.model.encoder_depth() > 0 ? &decoder_ends_ : nullptr;
  return {job_, chunk, ends_, decoder_ends, std::move(kinds), mtp_kinds(chunk), folded};
}

void RankLayers::new_batch(Tape& tape, Tokens& tokens) const {
  Tensor ids = tape.alloc(end_sizes_.tokens, Name::kTokens);
  tape.free(tokens.ids);
  Tensor positions = tape.alloc(end_sizes_.positions, Name::kTokens);
  tape.free(tokens.positions);
  tokens = {ids, positions};
}

// Runs the chunk once on a scratch tape and remembers what it does.
ChunkProfile RankLayers::measure(const ChunkBuilder& builder) const {
  ChunkProfile profile;
  Tape before;
  Tokens tokens;
  new_batch(before, tokens);
  Pass pass;
  if (!builder.chunk().has_embedding)
    pass.received = {(end_sizes_.h + kBlockUnit - 1) / kBlockUnit * kBlockUnit, 0, Name::kMessage};
  Tape forward;
  new_batch(forward, tokens);
  profile.output = builder.forward(forward, pass, false);
  profile.forward = forward.profile();
  const bool defers = job_.parallel.defer_embedding_wgrad && builder.chunk().has_loss;
  Pass again = defers ? pass : Pass{};
  Tape backward;
  profile.grad = builder.backward(backward, pass);
  profile.backward = backward.profile();
  if (!defers) return profile;
  again.ends.defers_wgrad = true;
  Tape deferring;
  (void)builder.backward(deferring, again);
  profile.deferring_backward = deferring.profile();
  profile.deferred_input = again.ends.deferred_input;
  profile.deferred_grad = again.ends.deferred_grad;
  return profile;
}

std::optional<ChunkShape> RankLayers::shape_of(const job::Chunk& chunk) {
  if (job_.offload.activations || job_.offload.fine_grained || job_.model.encoder_depth() > 0) return std::nullopt;
  const job::Recompute& recompute = job_.recompute;
  const bool full = recompute.granularity == job::RecomputeGranularity::kFull;
  ChunkShape shape;
  shape.ends = stored_ends_;
  if (is_uniform() && chunk.num_layers > 0) {
    shape.runs[0] = {kind_of(chunk.first_layer, true), chunk.num_layers};
  } else {
    std::size_t run = 0;
    for (std::int64_t i = 0; i < chunk.num_layers; ++i) {
      const LayerKind* const kind = kind_of(chunk.first_layer + i, true);
      if (i > 0 && shape.runs[run].kind != kind) ++run;
      if (run == ChunkShape::kMostRuns) return std::nullopt;
      shape.runs[run].kind = kind;
      ++shape.runs[run].layers;
    }
  }
  const std::vector<LayerKind*> mtp = mtp_kinds(chunk);
  if (mtp.size() > shape.mtp.size()) return std::nullopt;
  std::copy(mtp.begin(), mtp.end(), shape.mtp.begin());
  shape.mtp_layers = chunk.mtp_layers;
  shape.recomputed = full ? std::max<std::int64_t>(1, recompute.num_layers) : 0;
  shape.by_blocks = full && recompute.method != job::RecomputeMethod::kUniform;
  shape.checkpoint_bytes = ChunkBuilder::checkpoint_bytes(job_, end_sizes_);
  shape.has_embedding = chunk.has_embedding;
  shape.has_loss = chunk.has_loss;
  shape.defers_wgrad = job_.parallel.defer_embedding_wgrad;
  return shape;
}

const ChunkProfile& RankLayers::profile(const job::Chunk& chunk) {
  if (const auto shape = store_ != nullptr ? shape_of(chunk) : std::nullopt) {
    const ChunkProfile* known = store_->find(*shape);
    return known != nullptr ? *known : store_->keep(*shape, measure(builder(chunk, true)));
  }
  has_own_profiles_ = true;
  const ChunkBuilder builder = this->builder(chunk, true);
  const auto known = std::find_if(measured_.begin(), measured_.end(), [&](const Measured& m) {
    return m.chunk.has_embedding == chunk.has_embedding && m.chunk.has_loss == chunk.has_loss &&
           m.chunk.mtp_layers == chunk.mtp_layers && m.kinds == builder.kinds();
  });
  if (known != measured_.end()) return *known->profile;
  measured_.push_back({chunk, builder.kinds(), std::make_unique<ChunkProfile>(measure(builder))});
  return *measured_.back().profile;
}

std::int64_t RankLayers::widest_scores() const {
  std::int64_t widest = 0;
  for (const LayerKind* kind : used_kinds_)
    widest = std::max({widest, kind->sizes().scores, kind->sizes().cross.scores});
  return widest;
}

std::int64_t RankLayers::widest_offload() const {
  std::int64_t widest = 0;
  for (LayerKind* kind : used_kinds_) widest = std::max(widest, kind->offloaded_bytes());
  return widest;
}

}  // namespace plimsoll::step::megatron
