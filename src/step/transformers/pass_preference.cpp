// SPDX-License-Identifier: Apache-2.0
// Models that answer beside the one that is trained, and the losses that compare with them. Preference training: TRL's
// trainers take the logits of the model, and of a reference that sees the same tokens without gradients, and make the
// loss of log-probabilities (facts other-frameworks-memory.md 2.5.1).
#include <algorithm>

#include "step/transformers/ops.h"
#include "step/transformers/pass.h"

namespace plimsoll::step::transformers {

std::int64_t gathered_bytes(const Model& m) {
  const job::Sharding& s = m.job->sharding;
  const bool sharded = s.kind == job::ShardingKind::kFsdp2 || s.kind == job::ShardingKind::kFsdp1 ||
                       (s.kind == job::ShardingKind::kZero && s.zero_stage == 3);
  if (!sharded) return 0;
  std::int64_t largest = 0;
  for (const LayerIds& layer : m.layers) {
    std::int64_t bytes = 0;
    for (std::int32_t id = layer.first; id < layer.last; ++id) {
      const Weight& w = m.weights[static_cast<std::size_t>(id)];
      bytes += w.elements * w.width;
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

bool Pass::prefers() const {
  return m_.job->preference_loss && !has_fused_loss() && !m_.torchtitan &&
         m_.architecture().head == model::Head::kLanguage;
}

// The reference's logits as its caller gets them. It is a model of the same sizes, or this one without its adapters; no
// layer is recomputed, because nothing is kept.
Var Pass::ask_reference() {
  if (!m_.job->reference_model || m_.encoder_depth > 0) return {};
  // All but the last leave nothing; where kernels are not counted they change nothing either.
  const std::int64_t passes = g_.meter == nullptr ? 1 : m_.job->reference_passes;
  for (std::int64_t i = 1; i < passes; ++i) static_cast<void>(ask_once());
  return ask_once();
}

Var Pass::ask_once() {
  const bool walks = folded_ == nullptr || g_.meter != nullptr;  // what every layer launches is counted, too
  reference_ = std::make_unique<Pass>(m_, tape_, workspaces_, nullptr, walks ? nullptr : folded_);
  Pass& pass = *reference_;
  Graph& g = pass.g_;
  g.meter = g_.meter;
  g.grad_enabled = false;
  g.adapters = false;
  g.autocast = m_.autocast;
  pass.ids_ = ids_;
  pass.padding_ = padding_;
  pass.pixels_ = pixels_;
  // Adapters are their own reference, whose layers the step gathers anyway.
  if (m_.job->adapter.kind == job::AdapterKind::kNone) tape_.touch(gathered_bytes(m_), Name::kHidden);
  Var hidden = pass.run_base();
  pass.drop_tables();
  Var logits = has_fused_loss() ? Var() : pass.head(hidden);  // whose loss makes them a few tokens at a time
  hidden.reset();
  pass.image_features_.reset();
  pass.leave_autocast();
  tape_.at(Operation::kLoss);
  if (!logits) return {};
  if (m_.autocast) logits = cast(g, logits, 4, Name::kLogitsFp32);
  static_cast<void>(token_log_probabilities(g, logits, m_.batch, m_.sequence));
  return logits;
}

// ORPO and CPO: the logits of the chosen half but for their last tokens are copied for a cross-entropy.
Var Pass::chosen_loss(const Var& logits) {
  const std::int64_t sequences = std::max<std::int64_t>(1, m_.batch / 2);
  const std::int64_t tokens = sequences * (m_.sequence - 1);
  const std::int64_t each = logits.elements / (m_.batch * m_.sequence);
  if (tokens <= 0) return {};
  const Var chosen = slice(g_, logits, sequences * m_.sequence * each, false);
  const Var shifted = copy(g_, slice(g_, chosen, tokens * each, false), Name::kLogitsFp32);
  const Var labels = g_.make(tokens, 8, Name::kTokens);
  return cross_entropy(g_, shifted, labels);
}

Var Pass::preference_loss(Var logits) {
  tape_.at(Operation::kLoss);
  Var wide = m_.autocast ? cast(g_, logits, 4, Name::kLogitsFp32) : logits;
  logits.reset();
  const Var chosen = m_.job->chosen_loss ? chosen_loss(wide) : Var{};
  Var loss = token_log_probabilities(g_, wide, m_.batch, m_.sequence);
  if (chosen) loss = add(g_, chosen, loss, Name::kTokens);
  Var other = ask_reference();
  tape_.at(Operation::kLoss);
  // The entropy that is logged: the shifted logits are no longer one after the other, so a copy is flattened. ORPO and
  // CPO log means alone.
  if (m_.batch > 1 && !m_.job->chosen_loss) {
    g_.reads(wide.bytes());
    const Var flat = g_.alloc(wide.elements / m_.sequence * (m_.sequence - 1), wide.width, Name::kLossTemp);
  }
  other.reset();
  reference_.reset();
  return loss;
}

}  // namespace plimsoll::step::transformers
