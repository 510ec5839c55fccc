// SPDX-License-Identifier: Apache-2.0
// Attention blocks: projections, rotation, the kernel or the eager chain, and the output projection.
#include <algorithm>

#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// The bias of positions where a token may look, and the lowest number elsewhere: of one mask for all sequences, or of
// one for each where padding makes them differ.
Var hidden_places(Graph& g, const Model& m, const AttentionShape& s, const model::Attention& a, const Var& bias) {
  const bool padded = m.job->batch.padding_mask;
  Var shown = bias;
  if (a.causal || padded) {
    const std::int64_t sequences = padded ? s.batch : 1;
    const Var allowed = g.alloc(sequences * s.sequence * s.sequence, 1, Name::kMask);
    shown = choose(g, bias, allowed, sequences * bias.elements, Name::kMask);
  }
  return g.autocast ? cast(g, shown, 2, Name::kMask) : shown;
}

Var core_attention(Graph& g, const Model& m, const AttentionShape& s, const model::Attention& a, std::int32_t sinks,
                   const Var& q, const Var& k, const Var& v, const Shared& shared) {
  g.tape().at(Operation::kCoreAttention);
  const bool local = a.sliding_window > 0;
  const Var& mask = local ? shared.sliding_mask : shared.full_mask;
  const bool learned = m.architecture().relative_buckets > 0;  // no kernel has a gradient for its bias
  if (!m.eager_attention && (learned || (m.family.picks_heads && s.kv_heads < s.heads))) {
    const bool casts = g.autocast && q.width == 4;
    const Var bias = learned ? hidden_places(g, m, s, a, mask) : mask;
    return math_attention(g, s, casts ? cast(g, q, 2, Name::kQuery) : q, casts ? cast(g, k, 2, Name::kKey) : k,
                          g.autocast ? cast(g, v, 2, Name::kValue) : v, bias,
                          learned ? m.architecture().attention_dropout : 0);
  }
  // No kernel takes fp32 with grouped heads: PyTorch falls back to its unfused form.
  const bool unfused = m.eager_attention || (q.width == 4 && !g.autocast && s.kv_heads < s.heads);
  if (unfused && !m.eager_attention && sinks < 0)
    return math_attention(g, s, q, k, v, mask, g.grad_enabled ? m.architecture().attention_dropout : 0);
  if (unfused) return eager_attention(g, m, s, a, sinks, q, k, v, shared);
  const auto laid_out = [&](const Var& y) {  // the kernel's output has the query's layout
    return y.head_major ? copy(g, y, Name::kAttentionOutput) : y;
  };
  if (!mask) return laid_out(fused_attention(g, s, q, k, v, {}));
  // A mask rules out the grouped kernel: keys and values are repeated. One head is spread without a copy.
  const std::int64_t groups = s.heads / s.kv_heads;
  const bool single = s.kv_heads == 1 && s.heads > 1;
  const Var keys = single ? expand_view(g, k, k.elements * groups) : expand(g, k, groups, Name::kKey);
  const Var values = single ? expand_view(g, v, v.elements * groups) : expand(g, v, groups, Name::kValue);
  return laid_out(fused_attention(g, s, q, keys, values, mask));
}

// Norm of queries or keys: per head, or over all of them; Llama 4's has no weight.
Var head_norm(Graph& g, const Model& m, const model::Attention& a, const Var& x, const NormIds& ids, Name name) {
  if (a.qk_norm != model::QkNorm::kNone && !a.qk_norm_has_weight && m.family.norms_after_rotation)
    return norm(g, m, x, x.elements / a.head_dim, ids, name);
  if (ids.w < 0) return x;
  return norm(g, m, x, x.elements / g.weight(ids.w).elements, ids, name);
}

// Falcon's grouped layout repeats keys and values to all heads as it picks them.
AttentionShape core_shape(const Model& m, AttentionShape s) {
  if (m.family.picks_heads && s.kv_heads > 1) s.kv_heads = s.heads;
  return s;
}

// Falcon: full heads are selected, one or a few key and value heads are picked by index; with groups they are
// repeated for every query, and laying the result out copies all three.
std::array<Var, 3> picked_heads(Graph& g, const Model& m, const AttentionShape& s, const Var& packed,
                                const std::array<std::int64_t, 3>& sizes) {
  std::array<Var, 3> parts;
  parts[0] = slice(g, packed, sizes[0], false);
  if (s.kv_heads == s.heads) {
    for (std::size_t i = 1; i < 3; ++i) parts[i] = slice(g, packed, sizes[i], false);
    return parts;
  }
  std::array<Var, 3> picked;
  for (std::size_t i = 1; i < 3; ++i) {
    const Var index = g.alloc(1, 8, Name::kTokens);
    picked[i] = gather(g, packed, index, sizes[i], i == 1 ? Name::kKey : Name::kValue);
  }
  (void)m;
  if (s.kv_heads == 1) return {parts[0], picked[1], picked[2]};
  parts[0] = copy(g, parts[0], Name::kQuery);
  for (std::size_t i = 1; i < 3; ++i) parts[i] = expand(g, picked[i], s.heads / s.kv_heads, Name::kKey);
  for (std::size_t i = 1; i < 3; ++i) parts[i].head_major = false;
  return parts;
}

AttentionShape shape_of(const Model& m, const model::Attention& a) {
  return {m.batch,
          m.sequence,
          std::max<std::int64_t>(1, a.heads / m.tensor),
          std::max<std::int64_t>(1, a.kv_heads / m.tensor),
          a.head_dim,
          a.head_dim,
          m.context};
}

}  // namespace

Var attend(Graph& g, const Model& m, const AttentionShape& shape, const model::Attention& a, std::int32_t sinks,
           const Var& q, const Var& k, const Var& v, const Shared& shared) {
  return core_attention(g, m, shape, a, sinks, q, k, v, shared);
}

Var attention(Graph& g, const Model& m, const model::Layer& spec, const LayerIds& ids, const Shared& shared,
              const Var& x, const Leave& leave) {
  const model::Attention& a = spec.attention;
  if (a.kind == model::AttentionKind::kMla) return leave(latent_attention(g, m, spec, ids, shared, x));
  if (a.kind == model::AttentionKind::kLinear) return leave(delta_net(g, m, a, ids, x));
  if (a.kind == model::AttentionKind::kConvolution) return leave(short_convolution(g, m, a, ids, x));
  if (a.kind == model::AttentionKind::kLightning) return leave(lightning_attention(g, m, a, ids, x));
  const AttentionShape s = shape_of(m, a);
  const std::int64_t tokens = m.tokens();
  g.tape().at(Operation::kQkvLinear);
  const auto laid_out = [&](const Var& y, Name name) { return m.family.lays_out_heads ? by_head(g, y, name) : y; };
  Var q, k, v, gate, picked_from;
  if (ids.qkv.w >= 0) {
    Var packed = project(g, m, x, ids.qkv, Name::kQkv);
    if (m.family.clamps_qkv) packed = keeps_input(g, packed, Name::kQkv);
    const std::array<std::int64_t, 3> sizes{tokens * s.heads * a.head_dim, tokens * s.kv_heads * a.head_dim,
                                            tokens * s.kv_heads * a.head_dim};
    std::array<Var, 3> parts;
    if (m.family.splits_heads) {
      parts = split(g, to_heads(g, packed), sizes, true);
      packed.reset();
      q = parts[0];
      k = parts[1];
      v = parts[2];
    } else if (m.family.slices_qkv || m.family.copies_heads) {
      for (std::size_t i = 0; i < 3; ++i) parts[i] = slice(g, packed, sizes[i], false);
    } else if (m.family.picks_heads) {
      parts = picked_heads(g, m, s, packed, sizes);
    } else {
      parts = split(g, packed, sizes, false);
    }
    if (!m.family.splits_heads) {
      if (m.family.picks_heads) {
        picked_from = std::move(packed);
      } else {
        packed.reset();
      }
      // A slice's gradient is written into its place, however it lies.
      q = m.family.picks_heads && s.kv_heads < s.heads ? parts[0] : to_heads(g, parts[0]);
      k = to_heads(g, parts[1]);
      v = to_heads(g, parts[2]);
    }
  } else {
    const bool early = !m.family.norms_after_heads && !m.family.norms_after_rotation;
    q = project(g, m, x, ids.q, Name::kQuery);
    if (m.family.scaled_query) q = scale(g, q, Name::kQuery);
    if (a.output_gate) {  // projected beside the queries
      const std::int64_t half = tokens * s.heads * a.head_dim;
      auto parts = split(g, q, {half, half, 0}, false);
      q = parts[0];
      gate = parts[1];
    }
    // Heads are taken apart as they are projected or when all are; a norm of single heads comes after that.
    const bool last = m.family.heads_last;
    const auto apart = [&](const Var& y, const NormIds& norm_ids, Name name) {
      const bool by_head = early && norm_ids.w >= 0 && g.weight(norm_ids.w).elements == a.head_dim;
      Var z = by_head ? to_heads(g, y) : y;
      if (early) z = head_norm(g, m, a, z, norm_ids, name);
      return by_head || last ? z : laid_out(to_heads(g, z), name);
    };
    q = apart(q, ids.q_norm, Name::kQuery);
    if (last && m.family.scaled_query) q = to_heads(g, q);
    k = apart(project(g, m, x, ids.k, Name::kKey), ids.k_norm, Name::kKey);
    if (m.family.scaled_parts) k = scale(g, k, Name::kKey);
    v = project(g, m, x, ids.v, Name::kValue);
    if (last) {
      if (!m.family.scaled_query) q = to_heads(g, q);
      k = to_heads(g, k);
    }
    v = laid_out(to_heads(g, v), Name::kValue);
    if (m.family.norms_after_heads) {
      q = head_norm(g, m, a, q, ids.q_norm, Name::kQuery);
      k = head_norm(g, m, a, k, ids.k_norm, Name::kKey);
    }
  }
  std::array<Var, 4> held;
  if (m.architecture().rope && a.rotates) {
    g.tape().at(Operation::kRotary);
    if (shared.local_cos && a.sliding_window > 0) {
      Shared local;
      local.cos = shared.local_cos;
      local.sin = shared.local_sin;
      held = rotate(g, m, local, a.head_dim, q, k);
    } else {
      held = rotate(g, m, shared, a.head_dim, q, k);
    }
  }
  if (m.family.norms_after_rotation) {
    q = head_norm(g, m, a, q, ids.q_norm, Name::kQuery);
    k = head_norm(g, m, a, k, ids.k_norm, Name::kKey);
  }
  if (m.family.scaled_still && !a.rotates) {
    const Var factors = g.alloc(m.sequence, 4, Name::kRope);
    q = cast(g, mul(g, q, factors, Name::kQuery), q.width, Name::kQuery);
  }
  if (m.family.scales_places) {
    const Var factors = g.alloc(m.sequence, q.width, Name::kRope);
    q = mul(g, q, factors, Name::kQuery);
  }
  if (m.caches_keys && g.grad_enabled) {  // joined with what the cache holds, which is nothing
    Var cached_k = copy(g, k, Name::kKey);
    Var cached_v = copy(g, v, Name::kValue);
    cached_k.head_major = cached_v.head_major = true;
    k = std::move(cached_k);
    v = std::move(cached_v);
  }
  Var output = attend(g, m, core_shape(m, s), a, ids.sinks, q, k, v, shared);
  if (gate) output = mul(g, output, keeps_result(g, gate, Name::kActivation), Name::kAttentionOutput);
  gate.reset();
  g.tape().at(Operation::kProjection);
  Var y = leave(project(g, m, output, ids.o, Name::kHidden));
  output.reset();
  picked_from.reset();
  for (Var& part : held) part.reset();
  q.reset();
  k.reset();
  return y;
}

}  // namespace plimsoll::step::transformers
