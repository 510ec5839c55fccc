// SPDX-License-Identifier: Apache-2.0
// One decoder layer: norms, attention, MLP and residual additions in the arrangement of the family.
#include <vector>

#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// Under sequence parallelism a block gathers its input and scatters its output.
Var enter_block(Graph& g, const Model& m, const Var& x) {
  return m.sequence_parallel ? all_gather(g, x, m.tensor, m.batch) : x;
}
Leave leave_block(Graph& g, const Model& m) {
  if (!m.sequence_parallel) return {};
  return {&g, &m};
}

// residual + multiplier * block; what an expression makes goes before what it replaces.
Var add_to_residual(Graph& g, const Model& m, const Var& residual, const Var& block, Name name) {
  Var scaled = m.family.scaled_residual ? scale(g, block, Name::kHidden) : block;
  Var sum = add(g, residual, scaled, name);
  scaled.reset();
  return sum;
}

Var mix(Graph& g, const Model& m, const model::StateSpace& s, const MambaIds& ids, const Var& x) {
  return s.is_first_kind() ? selective_mixer(g, m, s, ids, x) : mamba_mixer(g, m, s, ids, x);
}

Var attend_block(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                 const Var& x, std::vector<Var>& held) {
  const Var input = enter_block(g, m, x);
  if (spec.attention.kind == model::AttentionKind::kMamba2)
    return leave_block(g, m)(mix(g, m, spec.attention.mamba, ids.mamba, input));
  if (spec.attention.kind != model::AttentionKind::kGqa || spec.attention.mamba.heads == 0)
    return attention(g, m, spec, ids, shared, input, leave_block(g, m));
  // A mixer beside the attention of the same layer; both results are scaled and added, and the layer holds them
  // (Falcon-H1).
  Var mixed = mamba_mixer(g, m, spec.attention.mamba, ids.mamba, input);
  mixed = scale(g, mixed, Name::kHidden);
  Var attended = attention(g, m, spec, ids, shared, scale(g, input, Name::kHidden));
  attended = scale(g, attended, Name::kHidden);
  Var sum = leave_block(g, m)(add(g, mixed, attended, Name::kHidden));
  for (const Var* output : {&mixed, &attended}) held.push_back(*output);
  return sum;
}

Var attend_block(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                 const Var& x) {
  std::vector<Var> held;
  return attend_block(g, m, spec, ids, shared, x, held);
}

Var feed_forward(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Var& x) {
  const Var input = enter_block(g, m, x);
  const Leave leave = leave_block(g, m);
  if (spec.ffn.is_moe()) return leave(mixture(g, m, spec.ffn, ids, input));
  return mlp(g, m, spec.ffn, ids, input, leave);
}

// Attention and MLP read the same input; their outputs are added to it.
Var parallel_layer(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                   const Var& x) {
  const std::int64_t tokens = m.residual_tokens();
  const double p = m.architecture().hidden_dropout;
  g.tape().at(Operation::kNorm1);
  Var hidden = norm(g, m, x, tokens, ids.norm[0], Name::kNormOutput);
  Var attended = attend_block(g, m, spec, ids, shared, hidden);
  if (ids.norm[1].w >= 0) hidden.reset();
  attended = dropout(g, attended, p, Name::kHidden);
  if (ids.norm[1].w >= 0) {
    g.tape().at(Operation::kNorm2);
    hidden = norm(g, m, x, tokens, ids.norm[1], Name::kNormOutput);
  }
  Var fed = feed_forward(g, m, spec, ids, hidden);
  if (ids.norm[1].w >= 0) hidden.reset();
  fed = dropout(g, fed, p, Name::kHidden);
  Var sum = m.family.adds_in_place ? add_onto(g, fed, attended) : add(g, attended, fed, Name::kHidden);
  Var y = add(g, sum, x, Name::kLayerInput);
  sum.reset();
  hidden.reset();
  attended.reset();
  fed.reset();
  return y;
}

// Queries of the decoder, keys and values of the encoder's output.
Var cross_attend(Graph& g, const Model& m, const model::Attention& a, const LayerIds& ids, const Shared& shared,
                 const Var& x) {
  g.tape().at(Operation::kQkvLinear);
  Var q = project(g, m, x, ids.cross_q, Name::kQuery);
  if (m.family.scaled_query) q = scale(g, q, Name::kQuery);
  const auto laid_out = [&](const Var& y, Name name) { return m.family.lays_out_heads ? by_head(g, y, name) : y; };
  q = laid_out(to_heads(g, q), Name::kQuery);
  const Var k = laid_out(to_heads(g, project(g, m, shared.encoded, ids.cross_k, Name::kKey)), Name::kKey);
  const Var v = laid_out(to_heads(g, project(g, m, shared.encoded, ids.cross_v, Name::kValue)), Name::kValue);
  g.tape().at(Operation::kCoreAttention);
  const AttentionShape s{m.batch, m.sequence, a.heads, a.heads, a.head_dim, a.head_dim, 1};
  Var output = m.eager_attention ? eager_attention(g, m, s, a, -1, q, k, v, {})
                                 : fused_attention(g, s, q, k, v, shared.encoded_bias);
  if (m.family.lays_out_heads) output = copy(g, output, Name::kAttentionOutput);
  g.tape().at(Operation::kProjection);
  return project(g, m, output, ids.cross_o, Name::kHidden);
}

Var cross_block(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                const Var& x) {
  const model::Architecture& a = m.architecture();
  Var hidden = a.post_norm_only ? x : norm(g, m, x, m.residual_tokens(), ids.cross_norm, Name::kNormOutput);
  hidden = cross_attend(g, m, spec.attention, ids, shared, hidden);
  hidden = dropout(g, hidden, a.hidden_dropout, Name::kHidden);
  hidden = add(g, x, hidden, Name::kNormInput);
  return a.post_norm_only ? norm(g, m, hidden, m.residual_tokens(), ids.cross_norm, Name::kNormOutput) : hidden;
}

// A mixer or an MLP alone is the layer (Mamba-2, Nemotron-H), or what follows a shared block (Zamba 2).
Var single_block_layer(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                       const Var& x) {
  const model::Attention& a = spec.attention;
  const Var residual = m.family.wide_residual ? cast(g, x, 4, Name::kLayerInput) : x;
  Var from_block;
  if (spec.shared_block > 0) from_block = shared_block(g, m, ids.block, shared, x);
  g.tape().at(Operation::kNorm1);
  Var hidden = cast(g, x, m.width, Name::kNormInput);
  if (from_block) hidden = add(g, hidden, from_block, Name::kNormInput);
  hidden = norm(g, m, hidden, m.residual_tokens(), ids.norm[0], Name::kNormOutput);
  if (a.kind == model::AttentionKind::kMamba2) {
    hidden = mix(g, m, a.mamba, ids.mamba, hidden);
  } else if (a.kind == model::AttentionKind::kNone) {
    hidden = feed_forward(g, m, spec, ids, hidden);
  } else {
    hidden = attend_block(g, m, spec, ids, shared, hidden);
  }
  return add(g, residual, hidden, Name::kLayerInput);
}

// What each norm gives is what the block's output is added to, and both are scaled (MiniMax).
Var normed_layer(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                 const Var& x) {
  const auto join = [&](const Var& residual, const Var& block) {
    Var kept = scale(g, residual, Name::kHidden);
    Var scaled = scale(g, block, Name::kHidden);
    Var sum = add(g, kept, scaled, Name::kNormInput);
    kept.reset();
    scaled.reset();
    return sum;
  };
  g.tape().at(Operation::kNorm1);
  Var residual = norm(g, m, x, m.residual_tokens(), ids.norm[0], Name::kNormOutput);
  Var hidden = join(residual, attend_block(g, m, spec, ids, shared, residual));
  g.tape().at(Operation::kNorm2);
  residual = norm(g, m, hidden, m.residual_tokens(), ids.norm[1], Name::kNormOutput);
  hidden.reset();
  return join(residual, feed_forward(g, m, spec, ids, residual));
}

// GPT-2 names each block's output, so it lives to the end of the layer.
Var classic_layer(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                  const Var& x) {
  const std::int64_t tokens = m.residual_tokens();
  const double p = m.architecture().hidden_dropout;
  Var residual = x;
  g.tape().at(Operation::kNorm1);
  Var hidden = norm(g, m, x, tokens, ids.norm[0], Name::kNormOutput);
  Var attended = attend_block(g, m, spec, ids, shared, hidden);
  attended = dropout(g, attended, p, Name::kHidden);
  hidden = add(g, attended, residual, Name::kNormInput);
  residual = hidden;
  g.tape().at(Operation::kNorm2);
  hidden = norm(g, m, hidden, tokens, ids.norm[1], Name::kNormOutput);
  Var fed = feed_forward(g, m, spec, ids, hidden);
  fed = dropout(g, fed, p, Name::kHidden);
  hidden = add(g, residual, fed, Name::kLayerInput);
  residual.reset();
  attended.reset();
  fed.reset();
  return hidden;
}

// StableLM names the norm's output and those of both blocks.
Var named_layer(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
                const Var& x) {
  const std::int64_t tokens = m.residual_tokens();
  g.tape().at(Operation::kNorm1);
  Var hidden = norm(g, m, x, tokens, ids.norm[0], Name::kNormOutput);
  Var attended = attend_block(g, m, spec, ids, shared, hidden);
  Var residual = add(g, x, attended, Name::kNormInput);
  Var fed;
  {
    g.tape().at(Operation::kNorm2);
    const Var normed = norm(g, m, residual, tokens, ids.norm[1], Name::kNormOutput);
    fed = feed_forward(g, m, spec, ids, normed);
  }
  fed = dropout(g, fed, m.architecture().hidden_dropout, Name::kHidden);
  hidden = add(g, residual, fed, Name::kLayerInput);
  for (Var* done : {&residual, &attended, &fed}) done->reset();
  return hidden;
}

}  // namespace

Var Leave::operator()(const Var& y) const {
  return model != nullptr ? reduce_scatter(*graph, y, model->tensor, model->batch) : y;
}

Var layer(Graph& g, const Model& m, std::int64_t index, const Shared& shared, const Var& x) {
  const model::Architecture& a = m.architecture();
  const model::Layer& spec = a.layer(m.first_layer + index);
  const LayerIds& ids = m.layers[static_cast<std::size_t>(index)];
  if (a.streams != nullptr) return stream_layer(g, m, index, shared, x);
  if (spec.parallel_block) return parallel_layer(g, m, spec, ids, shared, x);
  if (spec.ffn.is_empty() || spec.attention.kind == model::AttentionKind::kNone)
    return single_block_layer(g, m, spec, ids, shared, x);
  if (m.family.normed_residual) return normed_layer(g, m, spec, ids, shared, x);
  if (m.family.keeps_normed) return named_layer(g, m, spec, ids, shared, x);
  if (m.family.named_outputs) return classic_layer(g, m, spec, ids, shared, x);
  const std::int64_t tokens = m.residual_tokens();
  const bool four = spec.norms == 4;
  Var residual = x;
  Var hidden = x;
  const bool late = spec.norms == 1;  // only the MLP has a norm before it (the first layer of ModernBERT)
  if (!a.post_norm_only && !late) {
    g.tape().at(Operation::kNorm1);
    hidden = norm(g, m, hidden, tokens, ids.norm[0], Name::kNormOutput);
  }
  std::vector<Var> held;
  hidden = attend_block(g, m, spec, ids, shared, hidden, held);
  Var output;  // of a block, where its function still names it
  const auto drop = [&] {
    if (m.family.names_blocks) output = hidden;
    hidden = dropout(g, hidden, a.hidden_dropout, Name::kHidden);
  };
  if (a.hidden_dropout > 0 && !m.family.keeps_attended) drop();
  const bool after_sum = a.post_norm_only && m.family.norms_sums;
  if (four || (a.post_norm_only && !after_sum))
    hidden = norm(g, m, hidden, tokens, ids.norm[four ? 1 : 0], Name::kNormOutput);
  const auto join = [&](const NormIds& norm_ids, Name name) {
    Var sum = add_to_residual(g, m, residual, hidden, after_sum ? Name::kNormInput : name);
    if (!m.family.norms_argument) hidden.reset();
    output.reset();
    Var joined = after_sum ? norm(g, m, sum, tokens, norm_ids, name) : sum;
    hidden.reset();
    return joined;
  };
  hidden = join(ids.norm[0], Name::kNormInput);
  if (spec.cross_attention) hidden = cross_block(g, m, spec, ids, shared, hidden);

  if (m.family.flat_tokens) hidden = reshaped(g, hidden);
  residual = hidden;
  if (!a.post_norm_only) {
    g.tape().at(Operation::kNorm2);
    hidden = norm(g, m, hidden, tokens, ids.norm[four ? 2 : late ? 0 : 1], Name::kNormOutput);
  }
  hidden =
      m.family.inline_mlp ? inline_mlp(g, m, spec.ffn, ids, std::move(hidden)) : feed_forward(g, m, spec, ids, hidden);
  if (a.hidden_dropout > 0) drop();
  if (four || (a.post_norm_only && !after_sum))
    hidden = norm(g, m, hidden, tokens, ids.norm[four ? 3 : 1], Name::kNormOutput);
  hidden = join(ids.norm[1], Name::kLayerInput);
  for (Var& output : held) output.reset();
  return m.family.flat_tokens ? reshaped(g, hidden) : hidden;
}

}  // namespace plimsoll::step::transformers
