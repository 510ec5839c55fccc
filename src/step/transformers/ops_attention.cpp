// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention in one kernel: cuDNN on Hopper and newer; before, the flash kernels, or the
// memory-efficient one where flash cannot: with a mask, and where values have another width than queries (facts
// other-frameworks-memory.md 2.3).
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kPlanWorkspace = 256;  // cuDNN

// n: q, k, v elements, rows (b*a*s), q elements expanded to all heads for dk and dv.
void fused_attention_backward(Graph& g, Node& node, Grads& result) {
  if (g.meter != nullptr) g.meter->attention_backward();
  for (std::size_t i = 0; i < 3; ++i) {
    if (!node.edges[i].exists()) continue;
    result[i] = g.alloc(node.n[i], node.w[0], Name::kGrad);
    result[i].head_major = (node.w[1] >> i & 1) != 0;
  }
  Var gathered = g.alloc(node.n[5], node.w[0], Name::kCpBuffer);
  // An fp32 accumulator of dq and a sum per row; grouped queries also need dk and dv of every head.
  const std::int64_t accumulator = 4 * node.n[0];
  const std::int64_t sums = 4 * node.n[3];
  const std::int64_t expanded = node.n[4] * node.w[0];
  if (g.device().fused_attention) {
    Var scratch = g.alloc(accumulator + sums + expanded + kPlanWorkspace, 1, Name::kAttentionTemp);
    return;
  }
  Var dq = g.alloc(accumulator, 1, Name::kAttentionTemp);
  Var rows = g.alloc(sums, 1, Name::kAttentionTemp);
  Var dkv = g.alloc(expanded, 1, Name::kAttentionTemp);
}

// It writes place by place, however its inputs lie, and so do its gradients.
bool is_memory_efficient(const Graph& g, const AttentionShape& s, const Var& mask) {
  return !g.device().fused_attention && (mask || s.value_dim != s.head_dim);
}

// Only the causal half runs, or a window of it; an additive mask says nothing about what could be skipped.
AttentionCall call_of(const AttentionShape& s, std::uint8_t width, const Var& mask) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double rows = real(s.batch) * real(s.heads) * real(s.sequence);
  const double keys = mask ? real(s.sequence) : real(s.sequence) * real(s.context) / 2;
  return {2 * rows * keys * real(s.head_dim + s.value_dim), real(s.head_dim), keys, width, static_cast<bool>(mask)};
}

}  // namespace

Var fused_attention(Graph& g, const AttentionShape& s, const Var& query, const Var& key, const Var& value,
                    const Var& mask) {
  const Var v = g.autocast ? cast(g, value, 2, Name::kValue) : value;
  const Var k = g.autocast ? cast(g, key, 2, Name::kKey) : key;
  const Var q = g.autocast ? cast(g, query, 2, Name::kQuery) : query;
  const std::int64_t rows = s.batch * s.heads * s.sequence;
  // A bool mask becomes an additive one in every layer.
  Var bias;
  if (mask && mask.width > 1) {  // additive already: autocast converts it like the others
    bias = cast(g, mask, q.width, Name::kMask);
  } else if (mask) {
    Var zero = g.alloc(1, q.width, Name::kAttentionTemp);
    Var minus_infinity = g.alloc(1, q.width, Name::kAttentionTemp);
    g.reads(mask.bytes());
    bias = g.alloc(s.batch * s.sequence * s.sequence, q.width, Name::kMask);
    minus_infinity.reset();
    zero.reset();
  }
  const bool by_place = is_memory_efficient(g, s, mask);
  const std::int32_t node = g.node(fused_attention_backward, q, k, v);
  if (node >= 0) {
    Node& n = g.at(node);
    n.n = {q.elements,
           k.elements,
           v.elements,
           rows,
           s.kv_heads < s.heads && !mask ? rows * (s.head_dim + s.value_dim) : 0,
           s.context > 1 ? (k.elements + v.elements) * s.context : 0};
    n.w[0] = q.width;
    if (!by_place)
      n.w[1] = static_cast<std::uint8_t>((q.head_major ? 1 : 0) | (k.head_major ? 2 : 0) | (v.head_major ? 4 : 0));
  }
  if (mask) g.save(node, bias);
  g.save(node, k);
  g.save(node, q);
  g.save(node, v);
  if (g.meter != nullptr && !g.stopped()) g.meter->attention(call_of(s, q.width, mask));
  Var gathered = g.alloc(s.context > 1 ? (k.elements + v.elements) * s.context : 0, q.width, Name::kCpBuffer);
  Var seed = g.alloc(8, 1, Name::kLogSumExp);
  Var offset = g.alloc(8, 1, Name::kLogSumExp);
  Var y = g.reuse_result(false);
  if (!y) y = g.alloc(rows * s.value_dim, q.width, Name::kAttentionOutput);
  y.head_major = q.head_major && !by_place;
  Var lse = g.reuse_result(false);
  if (!lse) lse = g.alloc(rows, 4, Name::kLogSumExp);
  g.keep_result(y, false);
  g.keep_result(lse, false);
  if (g.device().fused_attention) {
    Var plan = g.alloc(kPlanWorkspace, 1, Name::kAttentionTemp);
  }
  g.save(node, lse);
  g.save(node, y);
  g.save(node, offset);
  g.save(node, seed);
  gathered.reset();
  if (node >= 0) g.produced(y, node);
  return y;
}

}  // namespace plimsoll::step::transformers
