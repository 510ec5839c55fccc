// SPDX-License-Identifier: Apache-2.0
// The end of a pass: the head, the loss and the outputs that the caller gets.
#include "step/transformers/pass.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked.h"
#include "model/softmax_attention.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

Var Pass::head(const Var& hidden) {
  tape_.at(Operation::kHead);
  if (m_.architecture().head == model::Head::kMasked) return masked_head(g_, m_, hidden);
  if (m_.architecture().head == model::Head::kClasses) return class_head(g_, m_, hidden);
  if (m_.language_head >= 0) {  // TRL's value head: logits, and an fp32 copy of them, that the loss does not see
    const bool outer = g_.grad_enabled;
    g_.grad_enabled = false;
    unused_logits_ = cast(g_, linear(g_, hidden, m_.language_head, -1, Name::kLogits), 4, Name::kLogitsFp32);
    g_.grad_enabled = outer;
  }
  Var logits;
  if (m_.token_rows >= 0 && g_.adapters && m_.head.w == m_.embedding && m_.tied) {
    const Var words = with_trained_rows(g_, m_.head.w, m_.token_rows);
    logits = linear_with(g_, hidden, words, m_.head.w, Name::kLogits);
  } else if (m_.head.lora_a >= 0) {
    logits = project(g_, m_, hidden, m_.head, Name::kLogits);
  } else {
    logits = linear(g_, hidden, m_.head.w, m_.head.bias, Name::kLogits);
  }
  if (m_.family.shifted_logits) logits = add_number(g_, logits, Name::kLogits);
  if (m_.family.scaled_logits) logits = scale(g_, logits, Name::kLogits);
  if (m_.architecture().final_softcap) {
    logits = scale(g_, logits, Name::kLogits);
    logits = keeps_result(g_, logits, Name::kLogits);
    logits = scale(g_, logits, Name::kLogits);
  }
  return m_.family.wide_logits ? cast(g_, logits, 4, Name::kLogitsFp32) : logits;
}

bool Pass::smooths() const { return m_.job->kernels.label_smoothing > 0 && !m_.torchtitan && !has_fused_loss(); }

bool Pass::has_fused_loss() const {
  if (m_.architecture().head == model::Head::kScores || m_.job->teacher != nullptr) return false;
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
  if (m_.compiled && g_.grad_enabled) {
    const Var labels = g_.alloc(m_.tokens() + m_.batch, 8, Name::kTokens);
    Var value = fused_cross_entropy(g_, logits, labels, m_.tokens());
    if (m_.autocast) tape_.touch(logits.elements * 4, Name::kLogitsFp32);  // the outputs, converted for the caller
    return value;
  }
  Var upcast = m_.family.narrow_loss ? logits : cast(g_, logits, 4, Name::kLogitsFp32);
  Var padded, labels = ids_;
  if (!m_.torchtitan && m_.architecture().head == model::Head::kLanguage &&
      m_.encoder_depth == 0) {  // labels are shifted by one
    padded = g_.make(m_.tokens() + m_.batch, 8, Name::kTokens);
    g_.runs_small(1);  // filled, then copied
    labels = g_.make(m_.tokens(), 8, Name::kTokens);
  }
  const bool split = m_.tensor > 1 && g_.grad_enabled;
  Var value = split ? split_cross_entropy(g_, upcast, labels, m_.tokens()) : cross_entropy(g_, upcast, labels);
  if (!m_.torchtitan) g_.runs_small(2);  // divided by the tokens of all micro-batches, and scaled
  upcast.reset();
  return value;
}

// The Trainer takes the logits, which accelerate has converted to fp32 after autocast, and computes a loss of its own.
Var Pass::smoothed_loss(Var logits) {
  tape_.at(Operation::kLoss);
  Var wide = cast(g_, logits, 4, Name::kLogitsFp32);
  logits.reset();
  return smoothed_cross_entropy(g_, wide, m_.batch * (m_.sequence - 1), m_.tokens());
}

// The model's outputs live until the caller has taken the loss. accelerate converts each of them to fp32, and lets the
// originals go when all are converted (convert_outputs_to_fp32).
void Pass::hand_out(Var logits) {
  std::array<Var, 3> outputs{std::move(logits), std::move(encoder_output_), std::move(image_features_)};
  if (!m_.autocast || m_.torchtitan || m_.compiled || m_.job->kernels.keeps_outputs) return;
  tape_.at(Operation::kLoss);
  const bool trained = g_.grad_enabled;
  g_.grad_enabled = false;  // no gradient comes back this way
  std::array<Var, 3> converted;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]) converted[i] = cast(g_, outputs[i], 4, Name::kLogitsFp32);
  for (Var& output : outputs) output.reset();
  for (Var& output : converted) output.reset();
  g_.grad_enabled = trained;
}

}  // namespace plimsoll::step::transformers
