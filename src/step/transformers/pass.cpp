// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/pass.h"

#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

Pass::Pass(Model& model, Tape& tape, Workspaces& workspaces, UnitHooks* units, bool folded)
    : m_(model), tape_(tape), workspaces_(workspaces), units_(units), g_(tape, model.weights, model.device) {
  if (folded) folded_ = std::make_unique<LayerProfiles>(m_);
  g_.workspaces = &workspaces_;
}

bool Pass::checkpoints(std::int64_t layer) const {
  const job::Recompute& r = m_.job->recompute;
  if (r.granularity != job::RecomputeGranularity::kFull) return false;
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

Var Pass::run_layers(Var x) {
  const std::int64_t depth = m_.architecture().depth();
  starts_.clear();
  needs_grad_ = g_.grad_enabled && x.has_grad();
  input_ = x.node;
  input_output_ = x.output;
  Var hidden = x;
  for (std::int64_t i = 0; i < depth; ++i) {
    tape_.layer(i);
    enter_unit(i);
    if (folded_ != nullptr) {
      const auto& measured = folded_->of(i, i > 0 || needs_grad_, false, false, g_.grad_enabled);
      tape_.apply(measured.forward);
      Var next = g_.adopt(Tensor{measured.output, 0, Name::kLayerInput}, m_.tokens() * m_.architecture().hidden,
                          hidden.width);
      if (measured.keeps_input) (void)g_.take(hidden);
      hidden = std::move(next);
      if (measured.keeps_input && i == 0) (void)g_.take(x);
    } else {
      starts_.push_back(g_.size());
      if (checkpoints(i)) {
        hidden = g_.checkpoint(hidden, [this, i, shared = shared_](const Var& input) { return layer(g_, m_, i, shared, input); });
      } else {
        hidden = layer(g_, m_, i, shared_, hidden);
      }
    }
    leave_unit(i);
  }
  tape_.layer(-1);
  if (folded_ != nullptr && g_.grad_enabled) {
    g_.require_grad(hidden);
    boundary_ = hidden.node;
  }
  after_layers_ = g_.size();
  return hidden;
}

Var Pass::run_base() {
  const model::Architecture& a = m_.architecture();
  enter_unit(kEmbeddingUnit);
  Var embeds = embed();
  leave_unit(kEmbeddingUnit);
  {
    Var counted = g_.alloc(m_.sequence, 8, Name::kTokens);
    positions_ = g_.alloc(m_.sequence, 8, Name::kTokens);
  }
  Var x = embeds;
  if (m_.positions >= 0) {
    Var rows = embedding(g_, positions_, m_.sequence, a.hidden, m_.positions);
    x = add(g_, embeds, rows, Name::kHidden);
  }
  make_masks(g_, m_, shared_);
  if (a.rope) make_rotary(g_, m_, shared_);
  if (a.embedding_norm) x = norm(g_, m_, x, m_.tokens(), m_.embedding_norm, Name::kNormOutput);
  x = dropout(g_, x, a.embedding_dropout, Name::kLayerInput);
  Var hidden = run_layers(std::move(x));
  enter_unit(kHeadUnit);
  tape_.at(Operation::kFinalNorm);
  if (a.final_norm) hidden = norm(g_, m_, hidden, m_.tokens(), m_.final_norm, Name::kNormOutput);
  positions_.reset();
  embeds.reset();
  return hidden;
}

Var Pass::head(const Var& hidden) {
  tape_.at(Operation::kHead);
  Var logits = linear(g_, hidden, m_.head.w, m_.head.bias, Name::kLogits);
  if (m_.architecture().final_softcap) {
    logits = scale(g_, logits, Name::kLogits);
    logits = keeps_result(g_, logits, Name::kLogits);
    logits = scale(g_, logits, Name::kLogits);
  }
  return logits;
}

Var Pass::loss(const Var& logits) {
  tape_.at(Operation::kLoss);
  Var upcast = cast(g_, logits, 4, Name::kLogitsFp32);
  Var padded = g_.alloc(m_.tokens() + m_.batch, 8, Name::kTokens);
  Var labels = g_.alloc(m_.tokens(), 8, Name::kTokens);
  Var value = cross_entropy(g_, upcast, labels);
  upcast.reset();
  return value;
}

void Pass::forward() {
  g_.grad_enabled = true;
  g_.autocast = m_.autocast;
  enter_unit(kRootUnit);
  Var hidden = run_base();
  shared_ = {};
  Var logits = head(hidden);
  leave_unit(kHeadUnit);
  after_head_ = g_.size();
  loss_ = loss(logits);
  leave_unit(kRootUnit);
  hidden.reset();
  if (m_.job->kernels.keeps_outputs) kept_logits_ = logits;
  logits.reset();
  g_.leave_autocast();
  g_.autocast = false;
}

void Pass::backward(bool accumulates) {
  tape_.at(Operation::kLoss);
  Var averaged = g_.alloc(1, 4, Name::kTokens);
  Var ones = g_.alloc(1, 4, Name::kTokens);
  if (units_ != nullptr) units_->before_backward(kRootUnit);
  g_.start_backward(loss_, g_.alloc(1, 4, Name::kTokens));
  g_.backward(after_head_);
  if (units_ != nullptr) units_->before_backward(kHeadUnit);
  g_.backward(after_layers_);
  if (units_ != nullptr) units_->after_backward(kHeadUnit);
  backward_layers(accumulates);
  tape_.layer(-1);
  if (units_ != nullptr) units_->before_backward(kEmbeddingUnit);
  g_.backward(0);
  if (units_ != nullptr) units_->after_backward(kRootUnit);
  ones.reset();
  averaged.reset();
  loss_.reset();
  kept_logits_.reset();
}

void Pass::backward_layers(bool accumulates) {
  const std::int64_t depth = m_.architecture().depth();
  Var grad;
  if (folded_ != nullptr) grad = g_.take_grad(boundary_);
  for (std::int64_t i = depth; i-- > 0;) {
    tape_.layer(i);
    if (units_ != nullptr) units_->before_backward(i);
    if (folded_ == nullptr) {
      g_.backward(starts_[static_cast<std::size_t>(i)]);
    } else {
      const auto& measured = folded_->of(i, i > 0 || needs_grad_, accumulates, grad.is_view, true);
      tape_.apply(measured.backward);
      (void)g_.take(grad);
      if (i > 0 || needs_grad_) {
        grad = g_.adopt(Tensor{measured.grad, 0, Name::kResidualGrad}, m_.tokens() * m_.architecture().hidden, m_.width);
        grad.is_view = measured.grad_is_view;
      }
      const LayerIds& ids = m_.layers[static_cast<std::size_t>(i)];
      for (std::int32_t id = ids.first; id < ids.last; ++id) {
        Weight& w = m_.weights[static_cast<std::size_t>(id)];
        if (!w.trainable || w.grad) continue;
        w.grad = Tensor{(w.elements * w.width + kBlockUnit - 1) / kBlockUnit * kBlockUnit, 0, Name::kGradient};
      }
    }
    if (units_ != nullptr) units_->after_backward(i);
  }
  if (folded_ != nullptr && grad && input_ >= 0) {
    Var input;
    input.node = input_;
    input.output = input_output_;
    g_.backward(static_cast<std::size_t>(boundary_));
    g_.start_backward(input, std::move(grad));
  }
}

void Pass::evaluate(bool with_loss, std::vector<Tensor>* kept, bool kept_fp32) {
  g_.grad_enabled = false;
  g_.autocast = m_.autocast;
  Var ids = g_.alloc(m_.tokens(), 8, Name::kTokens);
  enter_unit(kRootUnit);
  Var hidden = run_base();
  shared_ = {};
  Var logits = head(hidden);
  if (with_loss) loss_ = loss(logits);
  leave_unit(kRootUnit);
  hidden.reset();
  g_.leave_autocast();
  g_.autocast = false;
  g_.grad_enabled = true;
  loss_.reset();
  if (kept == nullptr) return;
  tape_.at(Operation::kLogitsKept);
  if (kept_fp32) logits = cast(g_, logits, 4, Name::kEvalLogits);
  kept->push_back(g_.take(logits));
}

}  // namespace plimsoll::step::transformers
