// SPDX-License-Identifier: Apache-2.0
// LFM2's layers without attention: one projection to two gates and a value, a short causal convolution of the gated
// value, and the second gate on what comes out.
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

Var short_convolution(Graph& g, const Model& m, const model::Attention& a, const LayerIds& ids, const Var& x) {
  const std::int64_t elements = m.tokens() * m.architecture().hidden;
  g.tape().at(Operation::kQkvLinear);
  // Channels first: the gradient of several sequences is laid out anew for the product.
  const bool several = m.batch > 1;
  Var packed = project(g, m, x, ids.qkv, Name::kQkv);
  if (several) packed = to_heads(g, packed);
  const auto parts = split(g, packed, {elements, elements, elements}, several);
  g.tape().at(Operation::kCoreAttention);
  Var hidden = mul(g, parts[0], parts[2], Name::kHidden);
  Var filtered;
  {
    const Var typed = cast(g, hidden, g.weight(ids.mamba.conv).width, Name::kCastInput);
    const std::int64_t padded = m.batch * m.architecture().hidden * (m.sequence + a.linear_conv - 1);
    const Var convolved = depthwise_convolution(g, typed, ids.mamba.conv, ids.mamba.conv_bias, padded);
    filtered = cast(g, slice(g, convolved, elements, false), hidden.width, Name::kHidden);
  }
  hidden = std::move(filtered);
  const Var open = mul(g, parts[1], hidden, Name::kAttentionOutput);
  g.tape().at(Operation::kProjection);
  return project(g, m, open, ids.o, Name::kHidden);
}

}  // namespace plimsoll::step::transformers
