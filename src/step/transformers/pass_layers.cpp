// SPDX-License-Identifier: Apache-2.0
// The layers of a pass: walked one by one, or added as measured profiles.
#include <algorithm>
#include <array>

#include "step/transformers/ops.h"
#include "step/transformers/pass.h"

namespace plimsoll::step::transformers {

bool Pass::checkpoints(std::int64_t layer) const {
  const job::Recompute& r = m_.job->recompute;
  if (r.granularity == job::RecomputeGranularity::kSelectiveOps) return true;
  if (r.granularity != job::RecomputeGranularity::kFull) return false;
  if (r.memory_budget >= 0)  // the budget's share of layers keeps its activations
    return static_cast<double>(layer) >= r.memory_budget * static_cast<double>(m_.depth());
  return r.every_nth_layer <= 1 || (layer + 1) % r.every_nth_layer == 0;
}

bool Pass::trains(std::int64_t layer) const {
  const LayerIds& ids = m_.layers[static_cast<std::size_t>(layer)];
  return std::any_of(m_.weights.begin() + ids.first, m_.weights.begin() + ids.last,
                     [](const Weight& w) { return w.trainable; });
}

LayerSituation Pass::situation_of(std::int64_t index) const {
  LayerSituation situation;
  situation.training = g_.grad_enabled;
  situation.adapted = g_.adapters;
  situation.checkpointed = g_.grad_enabled && checkpoints(index);
  situation.input_needs_grad = g_.grad_enabled && needs_grad_[static_cast<std::size_t>(index)];
  situation.frees_tables = g_.grad_enabled && index == lowest_;
  situation.input_is_held = g_.grad_enabled && index == 0 && !m_.has_embedding;
  const LayerIds& ids = m_.layers[static_cast<std::size_t>(index)];
  for (std::int32_t id = ids.first; id < ids.last; ++id) {
    const Weight& w = m_.weights[static_cast<std::size_t>(id)];
    if (w.trainable && w.grad) situation.accumulates = true;
  }
  return situation;
}

Var Pass::fold_layers(Var x) {
  const std::int64_t depth = m_.depth();
  folded_->use(m_);
  bool biased = false;
  for (const LayerIds& ids : m_.layers)
    for (const LinearIds* linear_ids : {&ids.q, &ids.qkv, &ids.o, &ids.up, &ids.down, &ids.gate})
      biased = biased || linear_ids->lora_bias >= 0 ||
               (linear_ids->bias >= 0 && !m_.weights[static_cast<std::size_t>(linear_ids->w)].quantized);
  is_biased_ = biased && !m_.family.loose_bias;
  g_.first_forward_product(is_biased_);
  // The lowest layer that saves a table frees it in its backward.
  lowest_ = 0;
  bool trained = needs_grad_[0];
  for (std::int64_t i = 0; g_.grad_enabled && i < depth; ++i) {
    LayerSituation probe = situation_of(i);
    probe.frees_tables = true;
    probe.input_needs_grad = trained;
    trained = trained || trains(i);
    lowest_ = i;
    if (folded_->of(i, probe, shared_, x.width).keeps_tables != 0) break;
    if (i + 1 == depth) lowest_ = std::min<std::int64_t>(1, depth - 1);  // none does
  }
  Var hidden = std::move(x);
  for (std::int64_t i = 0; i < depth; ++i) {
    tape_.layer(m_.first_layer + i);
    enter_unit(i);
    const MeasuredLayer& m = folded_->of(i, situation_of(i), shared_, hidden.width);
    tape_.apply(m.forward);
    Var next = g_.adopt(Tensor{m.output, 0, Name::kLayerInput}, m_.stream_elements(), m.width);
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
  const std::int64_t depth = m_.depth();
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
    if (m_.relative_bias[0] >= 0) shared_.full_mask = learned_bias(g_, m_, m_.relative_bias[0]);
    for (std::int64_t i = 0; i < depth; ++i) {
      if (i == m_.encoder_depth && i > 0) hidden = enter_decoder(std::move(hidden));
      tape_.layer(m_.first_layer + i);
      enter_unit(i);
      starts_.push_back(g_.size());
      Var next;
      const auto run = [this, i, shared = shared_, length = m_.sequence](const Var& input) {
        m_.sequence = length;  // a replay comes when another stack's was the last
        return m_.compiled ? compiled_layer(g_, m_, i, shared, input, checkpoints(i)) : layer(g_, m_, i, shared, input);
      };
      next = checkpoints(i) ? g_.checkpoint(hidden, run) : run(hidden);
      leave_unit(i);
      hidden = std::move(next);
      if (static_cast<std::size_t>(i) < deepstack_.size())
        hidden = add_to_images(g_, m_, hidden, deepstack_[static_cast<std::size_t>(i)]);
    }
    deepstack_.clear();
  }
  tape_.layer(-1);
  after_layers_ = g_.size();
  return hidden;
}

// The model's forward returns: tables live on only where a layer saved them.
void Pass::drop_tables() {
  if (folded_ == nullptr || !g_.grad_enabled || m_.depth() == 0) {
    shared_ = {};
    return;
  }
  shared_.positions.reset();  // no layer saves them
  const unsigned kept = folded_->of(lowest_, situation_of(lowest_), shared_, input_width_).keeps_tables;
  const std::array<Var*, 4> tables{&shared_.cos, &shared_.sin, &shared_.full_mask, &shared_.sliding_mask};
  for (std::size_t t = 0; t < tables.size(); ++t)
    if ((kept >> t & 1U) == 0) tables[t]->reset();
}

// Autocast ends: casts that no layer saved go.
void Pass::leave_autocast() {
  g_.leave_autocast();
  if (folded_ != nullptr && m_.autocast)
    for (std::int64_t i = 0; i < m_.depth(); ++i)
      tape_.apply(folded_->of(i, situation_of(i), shared_, input_width_).leave_autocast);
  g_.autocast = false;
}

void Pass::backward_layers() {
  const std::int64_t depth = m_.depth();
  if (folded_ == nullptr) {
    for (std::int64_t i = depth; i-- > 0;) {
      tape_.layer(m_.first_layer + i);
      if (units_ != nullptr) units_->before_backward(i);
      g_.backward(starts_[static_cast<std::size_t>(i)]);
      if (units_ != nullptr) units_->after_backward(i);
    }
    return;
  }
  folded_->use(m_);
  Var grad;
  if (boundary_ >= 0) grad = g_.take_grad(boundary_);
  if (grad && depth > 0) g_.first_backward_product();
  for (std::int64_t i = depth; i-- > 0;) {
    tape_.layer(m_.first_layer + i);
    if (units_ != nullptr) units_->before_backward(i);
    if (!grad) {  // nothing below is trained
      if (units_ != nullptr) units_->after_backward(i);
      continue;
    }
    if (is_biased_ && checkpoints(i)) g_.first_replayed_product();
    LayerSituation situation = situation_of(i);
    situation.grad_is_view = grad.is_view;
    situation.grad_is_held = !grad.has_storage();
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
      grad = g_.adopt(Tensor{m.grad, 0, Name::kResidualGrad}, m_.stream_elements(), m.width);
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

}  // namespace plimsoll::step::transformers
