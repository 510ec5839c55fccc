// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/pass.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked.h"
#include "model/softmax_attention.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

Pass::Pass(Model& model, Tape& tape, Workspaces& workspaces, UnitHooks* units, LayerProfiles* folded)
    : m_(model),
      tape_(tape),
      workspaces_(workspaces),
      units_(units),
      g_(tape, model.weights, model.device),
      folded_(folded) {
  g_.workspaces = &workspaces_;
  g_.selective = m_.job->recompute.granularity == job::RecomputeGranularity::kSelectiveOps;
  g_.stops_early = !m_.torchtitan;
}

void Pass::enter_unit(std::int64_t unit) {
  if (units_ != nullptr) units_->before_forward(unit);
}

void Pass::leave_unit(std::int64_t unit) {
  if (units_ != nullptr) units_->after_forward(unit);
}

void Pass::load_batch() {
  const model::Architecture& a = m_.architecture();
  if (a.mel_bins > 0) {
    constexpr std::int64_t kFramesOfAPlace = 2;
    Var frames = g_.alloc(m_.batch * kFramesOfAPlace * a.source_positions * a.mel_bins, 4, Name::kTokens);
    pixels_ = std::move(frames);
  }
  Var ids = a.patches > 0 ? g_.alloc(m_.batch * a.patches * a.patch_values, 4, Name::kTokens)
                          : g_.alloc(m_.tokens(), 8, Name::kTokens);
  // The Trainer's batches have labels of their own; a loop of one's own passes the ids for them.
  const bool has_labels = m_.job->facts().empties_cache && !m_.job->kernels.own_loop && m_.has_loss && a.patches == 0;
  Var labels = g_.alloc(has_labels ? m_.tokens() : 0, 8, Name::kTokens);
  ids_ = std::move(ids);
  labels_ = std::move(labels);
  if (m_.tower) {
    const Model& tower = *m_.tower.layers;
    const std::int64_t patches = tower.tokens() - (tower.class_token >= 0 ? tower.batch : 0);
    Var pixels = g_.alloc(patches * tower.architecture().patch_values, 4, Name::kTokens);
    pixels_ = std::move(pixels);
  }
  if (m_.job->batch.padding_mask) {
    Var padding = g_.alloc(m_.tokens(), 8, Name::kTokens);
    padding_ = std::move(padding);
  }
}

Var Pass::embed() {
  tape_.at(Operation::kEmbedding);
  const model::Architecture& a = m_.architecture();
  const std::int64_t h = a.embedding_dim > 0 ? a.embedding_dim : a.hidden;
  Var x = embed_words(g_, m_, ids_, m_.tokens(), h);
  // A hook of the embedding itself: FSDP2 frees the weights after it (facts other-frameworks-memory.md 6.4).
  if (m_.sequence_parallel) x = reduce_scatter(g_, x, m_.tensor, m_.batch);
  if (m_.job->kernels.embedding_noise > 0 && g_.grad_enabled) {
    const Var noise = g_.alloc(x.elements, x.width, Name::kHidden);
    x = add(g_, x, noise, Name::kHidden);
  }
  if (m_.family.scaled_embedding) x = scale(g_, x, Name::kHidden);
  return x;
}

Var Pass::with_images(const Var& embeds) {
  const bool replays = m_.job->recompute.granularity == job::RecomputeGranularity::kFull && g_.grad_enabled;
  const RunLayer run = [this, replays](const Var& input, const std::function<Var(const Var&)>& one) {
    return replays && input.has_grad() ? g_.checkpoint(input, one) : one(input);
  };
  Seen seen = see(g_, m_, pixels_, run);
  deepstack_ = std::move(seen.deepstack);
  tape_.at(Operation::kEmbedding);
  image_features_ = seen.features;  // an output of the model
  return place_images(g_, m_, embeds, seen.features);
}

Var Pass::enter_decoder(Var encoded) {
  const model::Architecture& a = m_.architecture();
  tape_.layer(-1);
  if (m_.encoder_norm.w >= 0) {
    encoded = norm(g_, m_, encoded, m_.tokens(), m_.encoder_norm, Name::kNormOutput);
    encoded = dropout(g_, encoded, a.hidden_dropout, Name::kHidden);
  }
  speech_.reset();
  encoder_output_ = encoded;
  shared_.encoded = std::move(encoded);
  if (m_.decoder_sequence > 0 && m_.decoder_sequence != m_.sequence) {
    m_.sequence = m_.decoder_sequence;
    make_masks(g_, m_, shared_);
  }
  decoder_ids_ = g_.alloc(m_.tokens(), 8, Name::kTokens);  // the labels, shifted
  tape_.at(Operation::kEmbedding);
  Var x = embedding(g_, decoder_ids_, m_.tokens(), a.hidden, m_.embedding);
  if (m_.family.scaled_embedding) x = scale(g_, x, Name::kHidden);
  decoder_embeds_ = x;
  if (m_.relative_bias[1] >= 0) {
    shared_.full_mask = learned_bias(g_, m_, m_.relative_bias[1]);
    shared_.encoded_bias = empty_bias(g_, m_, encoder_sequence_, m_.autocast ? 2 : m_.width);
  }
  if (m_.decoder_positions >= 0) {
    if (m_.family.slices_positions) {
      x = add(g_, x, slice(g_, g_.use(m_.decoder_positions), m_.sequence * a.hidden, false), Name::kHidden);
    } else {
      const Var places = g_.alloc(m_.sequence, 8, Name::kTokens);
      const Var rows = embedding(g_, places, m_.sequence, a.hidden, m_.decoder_positions);
      x = add(g_, x, rows, Name::kHidden);
    }
  }
  if (a.embedding_norm) x = norm(g_, m_, x, m_.tokens(), m_.decoder_embedding_norm, Name::kNormOutput);
  return dropout(g_, x, a.embedding_dropout, Name::kLayerInput);
}

Var Pass::run_base() {
  const model::Architecture& a = m_.architecture();
  encoder_sequence_ = m_.sequence;
  Var embeds;
  if (m_.has_embedding) {
    enter_unit(kEmbeddingUnit);
    embeds = a.patches > 0    ? embed_patches(g_, m_, ids_)
             : a.mel_bins > 0 ? embed_speech(g_, m_, pixels_, speech_)
                              : embed();
    if (m_.tower) embeds = with_images(embeds);
    if (a.shared_block != nullptr) shared_.embeds = copy(g_, embeds, Name::kHidden);
    if (a.streams != nullptr) shared_.per_layer = layer_inputs(g_, m_, ids_, embeds);
    leave_unit(kEmbeddingUnit);
  } else {  // the schedule holds what the stage before has sent
    embeds = g_.constant(m_.residual_tokens() * a.hidden, m_.width);
    g_.require_grad(embeds);
  }
  if (!m_.torchtitan) {
    Var counted = g_.make(m_.sequence, 8, Name::kTokens);
    positions_ = g_.make(m_.sequence, 8, Name::kTokens);
  }
  Var x = embeds;
  if (speech_) embeds.reset();
  Var rows;                 // held by the model's forward
  std::vector<Var> pieces;  // and what the residual streams were made of
  if (m_.token_types >= 0 && m_.has_embedding) x = embed_types(g_, m_, x, pieces);
  if (m_.project_in.w >= 0) x = project(g_, m_, x, m_.project_in, Name::kHidden);
  if (m_.positions >= 0 && a.patches == 0 && a.mel_bins == 0) {
    const std::int64_t placed = m_.family.positions_by_token ? m_.tokens() : m_.sequence;
    rows = embedding(g_, positions_, placed, a.hidden, m_.positions);
    x = add(g_, x, rows, Name::kHidden);
  }
  if (m_.torchtitan) {  // frequencies are a buffer of the model
    shared_.cos = g_.constant(m_.sequence * model::softmax_attention(a).head_dim, 4);
  } else {
    make_masks(g_, m_, shared_);
    if (a.streams != nullptr) x = widen(g_, m_, embeds, pieces);
    if (a.rope) make_rotary(g_, m_, shared_);
  }
  if (m_.has_embedding) {
    if (a.embedding_norm) x = norm(g_, m_, x, m_.residual_tokens(), m_.embedding_norm, Name::kNormOutput);
    x = dropout(g_, x, a.embedding_dropout, Name::kLayerInput);
  }
  if (m_.family.named_embeddings) {
    embeds = x;
    pieces.clear();
    rows.reset();
  }
  Var hidden = run_layers(std::move(x));
  pieces.clear();
  if (a.streams != nullptr) hidden = narrow(g_, m_, hidden);
  if (m_.has_loss) {
    enter_unit(kHeadUnit);
    tape_.at(Operation::kFinalNorm);
    if (a.final_norm || m_.family.norm == NormForm::kBare)
      hidden = norm(g_, m_, hidden, m_.residual_tokens(), m_.final_norm, Name::kNormOutput);
    if (m_.family.drops_output) hidden = dropout(g_, hidden, a.hidden_dropout, Name::kHidden);
    if (m_.project_out.w >= 0) hidden = project(g_, m_, hidden, m_.project_out, Name::kHidden);
    if (m_.sequence_parallel) hidden = all_gather(g_, hidden, m_.tensor, m_.batch);
  }
  positions_.reset();
  embeds.reset();
  decoder_embeds_.reset();
  rows.reset();
  return hidden;
}

Tensor Pass::forward() {
  g_.grad_enabled = true;
  g_.autocast = m_.autocast;
  enter_unit(kRootUnit);
  Var hidden = run_base();
  drop_tables();
  if (!m_.has_loss) {
    leave_unit(kRootUnit);
    sent_ = g_.constant(hidden.elements, hidden.width);
    if (hidden.has_grad()) g_.produced(sent_, hidden.node, hidden.output);
    Tensor output = g_.take(hidden);
    leave_autocast();
    return output;
  }
  Var logits;
  if (has_fused_loss()) {
    tape_.at(Operation::kLoss);
    after_head_ = g_.size();
    loss_ = run_fused_loss(hidden);
    if (m_.job->preference_loss) static_cast<void>(ask_reference());
    leave_unit(kHeadUnit);
  } else {
    logits = head(hidden);
    leave_unit(kHeadUnit);
    after_head_ = g_.size();
    // torchtitan computes the loss beside the model: FSDP2 has let the last gather go by then.
    if (m_.torchtitan) leave_unit(kRootUnit);
    if (m_.job->teacher != nullptr) ask_teacher();
    if (!smooths() && !prefers()) loss_ = loss(logits);
    // Probabilities of the one times log-probabilities of the other.
    if (teacher_softmax_) tape_.touch(teacher_softmax_.bytes(), Name::kLossTemp);
  }
  if (!m_.torchtitan || has_fused_loss()) leave_unit(kRootUnit);
  hidden.reset();
  teacher_logits_.reset();
  unused_logits_.reset();
  // A stage of a pipeline keeps its output until its backward is done.
  if (m_.job->kernels.keeps_outputs || m_.job->parallel.pipeline > 1) kept_logits_ = logits;
  if (smooths() || prefers()) {
    image_features_.reset();
    encoder_output_.reset();
    leave_autocast();
    loss_ = prefers() ? preference_loss(std::move(logits)) : smoothed_loss(std::move(logits));
    return {};
  }
  leave_autocast();
  hand_out(std::move(logits));
  return {};
}

Tensor Pass::backward() {
  tape_.at(Operation::kLoss);
  Var averaged, ones;
  if (m_.has_loss) {
    averaged = g_.make(1, 4, Name::kTokens);
    ones = g_.make(1, 4, Name::kTokens);
    g_.runs_small(2);  // what divided the loss divides its gradient
  }
  if (units_ != nullptr) units_->before_backward(kRootUnit);
  // A compiled graph is one function: outputs that nobody used get a gradient of zeros.
  Var unused;
  if (m_.compiled && m_.autocast && m_.has_loss)
    unused = g_.alloc(m_.tokens() * m_.weights[static_cast<std::size_t>(m_.head.w)].rows, 4, Name::kLogitsGrad);
  if (m_.has_loss) {
    g_.start_backward(loss_, g_.alloc(1, 4, Name::kTokens));
    g_.backward(after_head_);
    teacher_softmax_.reset();
    if (units_ != nullptr) units_->before_backward(kHeadUnit);
    g_.backward(after_layers_);
    if (units_ != nullptr) units_->after_backward(kHeadUnit);
  } else {  // the schedule holds the gradient that arrived
    Var arrived = g_.constant(sent_.elements, sent_.width);
    arrived.is_view = true;
    g_.start_backward(sent_, std::move(arrived));
    sent_.reset();
  }
  backward_layers();
  shared_ = {};
  tape_.layer(-1);
  Tensor leaving;
  if (m_.has_embedding) {
    if (units_ != nullptr) units_->before_backward(kEmbeddingUnit);
  } else {
    Var grad = g_.take_grad(0);
    leaving = grad.has_storage() ? g_.take(grad) : tape_.alloc(grad.bytes(), Name::kMessage);
    tape_.rename(leaving, Name::kMessage);
  }
  g_.backward(0);
  if (units_ != nullptr) units_->after_backward(kRootUnit);
  ones.reset();
  averaged.reset();
  loss_.reset();
  kept_logits_.reset();
  m_.sequence = encoder_sequence_;
  return leaving;
}

void Pass::release() {
  for (Var* value : {&ids_, &labels_, &decoder_ids_, &evaluated_ids_, &padding_, &positions_, &pixels_}) value->reset();
}

void Pass::evaluate(bool with_loss, std::vector<Tensor>* kept, bool kept_fp32) {
  g_.grad_enabled = false;
  g_.autocast = m_.autocast;
  Var trained = ids_;  // the last training batch is still around
  Var next = g_.alloc(m_.tokens(), 8, Name::kTokens);
  evaluated_ids_ = std::move(next);
  ids_ = evaluated_ids_;
  enter_unit(kRootUnit);
  Var hidden = run_base();
  drop_tables();
  Var logits = head(hidden);
  if (with_loss && !smooths()) loss_ = loss(logits);
  leave_unit(kHeadUnit);
  leave_unit(kRootUnit);
  hidden.reset();
  if (with_loss && smooths()) {
    const bool outer = g_.autocast;
    g_.autocast = false;
    loss_ = smoothed_loss(logits);
    g_.autocast = outer;
  }
  tape_.at(Operation::kLogitsKept);
  if (kept != nullptr && kept_fp32) logits = cast(g_, logits, 4, Name::kEvalLogits);
  if (kept != nullptr) kept->push_back(g_.take(logits));
  logits.reset();
  unused_logits_.reset();
  leave_autocast();
  g_.grad_enabled = true;
  loss_.reset();
  m_.sequence = encoder_sequence_;
  ids_ = std::move(trained);
}

void Pass::end_evaluation() { evaluated_ids_.reset(); }

}  // namespace plimsoll::step::transformers
