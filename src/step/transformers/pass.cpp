// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/pass.h"

#include <algorithm>
#include <array>

#include "base/checked.h"

#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

Pass::Pass(Model& model, Tape& tape, Workspaces& workspaces, UnitHooks* units, bool folded)
    : m_(model), tape_(tape), workspaces_(workspaces), units_(units), g_(tape, model.weights, model.device) {
  if (folded) folded_ = std::make_unique<LayerProfiles>(m_);
  g_.workspaces = &workspaces_;
  g_.selective = m_.job->recompute.granularity == job::RecomputeGranularity::kSelectiveOps;
}

bool Pass::checkpoints(std::int64_t layer) const {
  const job::Recompute& r = m_.job->recompute;
  if (r.granularity == job::RecomputeGranularity::kSelectiveOps) return true;
  if (r.granularity != job::RecomputeGranularity::kFull) return false;
  if (r.memory_budget >= 0)  // the budget's share of layers keeps its activations
    return static_cast<double>(layer) >= r.memory_budget * static_cast<double>(m_.architecture().depth());
  return r.every_nth_layer <= 1 || layer % r.every_nth_layer == 0;
}

void Pass::enter_unit(std::int64_t unit) {
  if (units_ != nullptr) units_->before_forward(unit);
}

void Pass::leave_unit(std::int64_t unit) {
  if (units_ != nullptr) units_->after_forward(unit);
}

void Pass::load_batch() {
  Var ids = g_.alloc(m_.tokens(), 8, Name::kTokens);
  ids_ = std::move(ids);
  if (m_.job->batch.padding_mask) {
    Var padding = g_.alloc(m_.tokens(), 8, Name::kTokens);
    padding_ = std::move(padding);
  }
}

Var Pass::embed() {
  tape_.at(Operation::kEmbedding);
  const model::Architecture& a = m_.architecture();
  const std::int64_t h = a.embedding_dim > 0 ? a.embedding_dim : a.hidden;
  Var x = embedding(g_, ids_, m_.tokens(), h, m_.embedding);
  if (m_.family.scaled_embedding) x = scale(g_, x, Name::kHidden);
  return x;
}

LayerSituation Pass::situation_of(std::int64_t index) const {
  LayerSituation situation;
  situation.training = g_.grad_enabled;
  situation.checkpointed = g_.grad_enabled && checkpoints(index);
  situation.input_needs_grad = g_.grad_enabled && needs_grad_[static_cast<std::size_t>(index)];
  situation.frees_tables = g_.grad_enabled && index == lowest_;
  const LayerIds& ids = m_.layers[static_cast<std::size_t>(index)];
  for (std::int32_t id = ids.first; id < ids.last; ++id) {
    const Weight& w = m_.weights[static_cast<std::size_t>(id)];
    if (w.trainable && w.grad) situation.accumulates = true;
  }
  return situation;
}

Var Pass::fold_layers(Var x) {
  const std::int64_t depth = m_.architecture().depth();
  folded_->use(m_);
  bool biased = false;
  for (const LayerIds& ids : m_.layers)
    for (const LinearIds* linear_ids : {&ids.q, &ids.qkv, &ids.o, &ids.up, &ids.down, &ids.gate})
      biased = biased || linear_ids->bias >= 0;
  g_.first_forward_product(biased);
  // The lowest layer that saves a table frees it in its backward.
  lowest_ = 0;
  if (g_.grad_enabled) {
    LayerSituation probe = situation_of(0);
    probe.frees_tables = true;
    if (depth > 1 && folded_->of(0, probe, shared_, x.width).keeps_tables == 0) lowest_ = 1;
  }
  Var hidden = std::move(x);
  for (std::int64_t i = 0; i < depth; ++i) {
    tape_.layer(i);
    enter_unit(i);
    const MeasuredLayer& m = folded_->of(i, situation_of(i), shared_, hidden.width);
    tape_.apply(m.forward);
    Var next =
        g_.adopt(Tensor{m.output, 0, Name::kLayerInput}, m_.residual_tokens() * m_.architecture().hidden, m.width);
    leave_unit(i);
    if (m.keeps_input) (void)g_.take(hidden);  // the layer's backward frees it
    hidden = std::move(next);
    needs_grad_[static_cast<std::size_t>(i) + 1] = m.has_grad;
  }
  if (g_.grad_enabled && needs_grad_.back()) {
    g_.require_grad(hidden);
    boundary_ = hidden.node;
  }
  return hidden;
}

Var Pass::run_layers(Var x) {
  const std::int64_t depth = m_.architecture().depth();
  starts_.clear();
  needs_grad_.assign(static_cast<std::size_t>(depth) + 1, false);
  needs_grad_[0] = g_.grad_enabled && x.has_grad();
  boundary_ = -1;
  input_ = x.node;
  input_output_ = x.output;
  input_width_ = x.width;
  Var hidden;
  if (folded_ != nullptr) {
    hidden = fold_layers(std::move(x));
  } else {
    hidden = std::move(x);
    for (std::int64_t i = 0; i < depth; ++i) {
      tape_.layer(i);
      enter_unit(i);
      starts_.push_back(g_.size());
      Var next;
      if (checkpoints(i)) {
        next = g_.checkpoint(hidden,
                             [this, i, shared = shared_](const Var& input) { return layer(g_, m_, i, shared, input); });
      } else {
        next = layer(g_, m_, i, shared_, hidden);
      }
      leave_unit(i);
      hidden = std::move(next);
    }
  }
  tape_.layer(-1);
  after_layers_ = g_.size();
  return hidden;
}

Var Pass::run_base() {
  const model::Architecture& a = m_.architecture();
  enter_unit(kEmbeddingUnit);
  Var embeds = embed();
  leave_unit(kEmbeddingUnit);
  if (!m_.torchtitan) {
    Var counted = g_.alloc(m_.sequence, 8, Name::kTokens);
    positions_ = g_.alloc(m_.sequence, 8, Name::kTokens);
  }
  Var x = embeds;
  Var rows;  // held by the model's forward
  if (m_.positions >= 0) {
    rows = embedding(g_, positions_, m_.sequence, a.hidden, m_.positions);
    x = add(g_, embeds, rows, Name::kHidden);
  }
  if (m_.torchtitan) {  // frequencies are a buffer of the model
    shared_.cos = g_.constant(m_.sequence * a.kinds[0].attention.head_dim, 4);
  } else {
    make_masks(g_, m_, shared_);
    if (a.rope) make_rotary(g_, m_, shared_);
  }
  if (m_.sequence_parallel) x = reduce_scatter(g_, x, m_.tensor);
  if (a.embedding_norm) x = norm(g_, m_, x, m_.residual_tokens(), m_.embedding_norm, Name::kNormOutput);
  x = dropout(g_, x, a.embedding_dropout, Name::kLayerInput);
  Var hidden = run_layers(std::move(x));
  enter_unit(kHeadUnit);
  tape_.at(Operation::kFinalNorm);
  if (a.final_norm) hidden = norm(g_, m_, hidden, m_.residual_tokens(), m_.final_norm, Name::kNormOutput);
  if (m_.sequence_parallel) hidden = all_gather(g_, hidden, m_.tensor);
  positions_.reset();
  embeds.reset();
  rows.reset();
  return hidden;
}

Var Pass::head(const Var& hidden) {
  tape_.at(Operation::kHead);
  Var logits = linear(g_, hidden, m_.head.w, m_.head.bias, Name::kLogits);
  if (m_.family.scaled_logits) logits = scale(g_, logits, Name::kLogits);
  if (m_.architecture().final_softcap) {
    logits = scale(g_, logits, Name::kLogits);
    logits = keeps_result(g_, logits, Name::kLogits);
    logits = scale(g_, logits, Name::kLogits);
  }
  return logits;
}

bool Pass::has_fused_loss() const {
  const job::LossKind kind = m_.job->kernels.loss;
  return m_.liger || kind == job::LossKind::kLiger || kind == job::LossKind::kChunked;
}

Var Pass::run_fused_loss(const Var& hidden) {
  FusedLoss fused;
  fused.tokens = m_.tokens();
  fused.vocabulary = m_.weights[static_cast<std::size_t>(m_.head.w)].rows;
  fused.weight = m_.head.w;
  if (m_.job->kernels.loss == job::LossKind::kChunked) {
    fused.chunk = ceil_div(fused.tokens, std::max<std::int64_t>(1, m_.job->kernels.loss_chunks));
    fused.unfused = true;
    fused.wide_gradient = m_.torchtitan;
  } else {
    fused.chunk = liger_chunk(fused.tokens, fused.vocabulary, m_.architecture().hidden);
  }
  return fused_loss(g_, hidden, fused);
}

Var Pass::loss(const Var& logits) {
  tape_.at(Operation::kLoss);
  Var upcast = cast(g_, logits, 4, Name::kLogitsFp32);
  Var padded, labels = ids_;
  if (!m_.torchtitan) {  // labels are shifted by one
    padded = g_.alloc(m_.tokens() + m_.batch, 8, Name::kTokens);
    labels = g_.alloc(m_.tokens(), 8, Name::kTokens);
  }
  Var value = cross_entropy(g_, upcast, labels);
  upcast.reset();
  return value;
}

void Pass::forward() {
  g_.grad_enabled = true;
  g_.autocast = m_.autocast;
  enter_unit(kRootUnit);
  Var hidden = run_base();
  drop_tables();
  Var logits;
  if (has_fused_loss()) {
    tape_.at(Operation::kLoss);
    after_head_ = g_.size();
    loss_ = run_fused_loss(hidden);
    leave_unit(kHeadUnit);
  } else {
    logits = head(hidden);
    leave_unit(kHeadUnit);
    after_head_ = g_.size();
    loss_ = loss(logits);
  }
  leave_unit(kRootUnit);
  hidden.reset();
  if (m_.job->kernels.keeps_outputs) kept_logits_ = logits;
  logits.reset();
  g_.leave_autocast();
  if (folded_ != nullptr && m_.autocast)
    for (std::int64_t i = 0; i < m_.architecture().depth(); ++i)
      tape_.apply(folded_->of(i, situation_of(i), shared_, input_width_).leave_autocast);
  g_.autocast = false;
}

// The model's forward returns: tables live on only where a layer saved them.
void Pass::drop_tables() {
  if (folded_ == nullptr || !g_.grad_enabled) {
    shared_ = {};
    return;
  }
  const unsigned kept = folded_->of(lowest_, situation_of(lowest_), shared_, input_width_).keeps_tables;
  const std::array<Var*, 4> tables{&shared_.cos, &shared_.sin, &shared_.full_mask, &shared_.sliding_mask};
  for (std::size_t t = 0; t < tables.size(); ++t)
    if ((kept >> t & 1U) == 0) tables[t]->reset();
}

void Pass::backward() {
  tape_.at(Operation::kLoss);
  Var averaged = g_.alloc(1, 4, Name::kTokens);
  Var ones = g_.alloc(1, 4, Name::kTokens);
  if (units_ != nullptr) units_->before_backward(kRootUnit);
  g_.start_backward(loss_, g_.alloc(1, 4, Name::kTokens));
  g_.backward(after_head_);
  if (units_ != nullptr) units_->before_backward(kHeadUnit);
  g_.backward(after_layers_);
  if (units_ != nullptr) units_->after_backward(kHeadUnit);
  backward_layers();
  shared_ = {};
  tape_.layer(-1);
  if (units_ != nullptr) units_->before_backward(kEmbeddingUnit);
  g_.backward(0);
  if (units_ != nullptr) units_->after_backward(kRootUnit);
  ones.reset();
  averaged.reset();
  loss_.reset();
  kept_logits_.reset();
}

void Pass::backward_layers() {
  const std::int64_t depth = m_.architecture().depth();
  if (folded_ == nullptr) {
    for (std::int64_t i = depth; i-- > 0;) {
      tape_.layer(i);
      if (units_ != nullptr) units_->before_backward(i);
      g_.backward(starts_[static_cast<std::size_t>(i)]);
      if (units_ != nullptr) units_->after_backward(i);
    }
    return;
  }
  folded_->use(m_);
  Var grad;
  if (boundary_ >= 0) grad = g_.take_grad(boundary_);
  for (std::int64_t i = depth; i-- > 0;) {
    tape_.layer(i);
    if (units_ != nullptr) units_->before_backward(i);
    if (!grad) {  // nothing below is trained
      if (units_ != nullptr) units_->after_backward(i);
      continue;
    }
    LayerSituation situation = situation_of(i);
    situation.grad_is_view = grad.is_view;
    const MeasuredLayer& m = folded_->of(i, situation, shared_, input_width_);
    tape_.apply(m.backward);
    (void)g_.take(grad);
    if (i == lowest_) {
      const std::array<Var*, 4> tables{&shared_.cos, &shared_.sin, &shared_.full_mask, &shared_.sliding_mask};
      for (std::size_t t = 0; t < tables.size(); ++t)
        if ((m.keeps_tables >> t & 1U) != 0) (void)g_.take(*tables[t]);
    }
    grad.reset();
    if (m.grad > 0) {
      grad = g_.adopt(Tensor{m.grad, 0, Name::kResidualGrad}, m_.residual_tokens() * m_.architecture().hidden, m.width);
      grad.is_view = m.grad_is_view;
    }
    const LayerIds& ids = m_.layers[static_cast<std::size_t>(i)];
    for (std::int32_t id = ids.first; id < ids.last; ++id) {
      Weight& w = m_.weights[static_cast<std::size_t>(id)];
      if (!w.trainable || w.grad) continue;
      w.grad = Tensor{(w.elements * w.width + kBlockUnit - 1) / kBlockUnit * kBlockUnit, 0, Name::kGradient};
    }
    if (units_ != nullptr) units_->after_backward(i);
  }
  if (boundary_ >= 0) g_.backward(static_cast<std::size_t>(boundary_));
  if (grad && input_ >= 0) {
    Var input;
    input.node = input_;
    input.output = input_output_;
    g_.start_backward(input, std::move(grad));
  }
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
  if (with_loss) loss_ = loss(logits);
  leave_unit(kHeadUnit);
  leave_unit(kRootUnit);
  hidden.reset();
  tape_.at(Operation::kLogitsKept);
  if (kept != nullptr && kept_fp32) logits = cast(g_, logits, 4, Name::kEvalLogits);
  if (kept != nullptr) kept->push_back(g_.take(logits));
  logits.reset();
  g_.leave_autocast();
  if (folded_ != nullptr && m_.autocast)
    for (std::int64_t i = 0; i < m_.architecture().depth(); ++i)
      tape_.apply(folded_->of(i, situation_of(i), shared_, input_width_).leave_autocast);
  g_.autocast = false;
  g_.grad_enabled = true;
  loss_.reset();
  ids_ = std::move(trained);
}

void Pass::end_evaluation() { evaluated_ids_.reset(); }

}  // namespace plimsoll::step::transformers
