// SPDX-License-Identifier: Apache-2.0
// A Mamba-2 mixer as Transformers writes it without the kernels of mamba-ssm: a causal convolution and a scan over
// chunks of tokens in plain operations in fp32, whose broadcast products are far larger than what they sum to.
#include <utility>

#include "base/checked.h"
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

struct ScanShape {
  std::int64_t tokens = 0;  // with the padding of the last chunk
  std::int64_t chunks = 0;  // of all sequences
  std::int64_t per_sequence = 0;
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  std::int64_t state = 0;
  std::int64_t chunk = 0;
};

ScanShape scan_shape(const Model& m, const model::StateSpace& s) {
  const std::int64_t per_sequence = ceil_div(m.sequence, s.chunk);
  const std::int64_t chunks = m.batch * per_sequence;
  return {chunks * s.chunk, chunks, per_sequence, m.batch, s.heads / m.tensor, s.head_dim, s.state, s.chunk};
}

// The sums between every two positions of `n`, below the diagonal.
Var segment_sums(Graph& g, const Var& x, std::int64_t lines, std::int64_t n) {
  const auto triangle = [&] {
    const Var ones = g.alloc(n * n, 1, Name::kMask);
    const Var lower = g.alloc(n * n, 1, Name::kMask);
    return g.alloc(n * n, 1, Name::kMask);
  };
  const Var spread = expand_view(g, x, lines * n * n);
  const Var below = masked_fill(g, spread, triangle(), false, Name::kAttentionTemp);
  const Var sums = running_sum(g, below, Name::kAttentionTemp);
  return masked_fill(g, sums, triangle(), false, Name::kAttentionTemp);
}

// exp of them; all but what it is made of is gone by then.
Var decay_between(Graph& g, const Var& x, std::int64_t lines, std::int64_t n, Name name) {
  return keeps_result(g, segment_sums(g, x, lines, n), name);
}

// Channels along tokens, in the type of the convolution's weight: the convolution pads, its end is cut, and SiLU keeps
// what it cut from.
Var convolve(Graph& g, const Model& m, const Var& x, const model::StateSpace& s, const MambaIds& ids) {
  const std::int64_t channels = s.conv_channels() / m.tensor;
  const Var padded = depthwise_convolution(g, cast(g, x, g.weight(ids.conv).width, Name::kCastInput), ids.conv,
                                           ids.conv_bias, m.batch * channels * (m.sequence + s.conv - 1));
  const Var cut = slice(g, padded, m.tokens() * channels, false);
  return cast(g, keeps_input(g, cut, Name::kActivation), x.width, Name::kActivation);
}

// softplus(dt + bias), clamped; autocast runs it in fp32.
Var step_sizes(Graph& g, const Var& dt, const MambaIds& ids) {
  Var shifted = add(g, dt, g.use(ids.dt_bias), Name::kRouter);
  const Var wide = g.autocast ? cast(g, shifted, 4, Name::kRouter) : shifted;
  shifted.reset();
  const Var positive = keeps_input(g, wide, Name::kRouter);
  return keeps_input(g, positive, Name::kRouter);
}

// Groups share B and C among their heads.
Var spread_groups(Graph& g, const Var& x, std::int64_t times) {
  const Var wide = cast(g, x, 4, Name::kKey);
  return times > 1 ? expand(g, wide, times, Name::kKey) : wide;
}

// What stands at the ends is padded to whole chunks: by a copy, and so is the gradient, also where nothing is missing.
Var padded(Graph& g, const Var& x) { return laid_out(g, x, Name::kAttentionTemp); }

// The order of requests and releases is that of the code: values that it names live until it returns, and go in the
// order in which it names them.
Var scan(Graph& g, const Model& m, const model::StateSpace& s, const MambaIds& ids, const Var& x, const Var& b,
         const Var& c, const Var& dt_raw, const Var& a_vector) {
  const ScanShape n = scan_shape(m, s);
  const Var dt = step_sizes(g, dt_raw, ids);
  Var hidden = cast(g, x, 4, Name::kQuery);
  Var keys = spread_groups(g, b, s.heads / s.groups);
  Var queries = spread_groups(g, c, s.heads / s.groups);
  Var skip = mul(g, g.use(ids.skip), padded(g, hidden), Name::kAttentionTemp);
  hidden = mul(g, hidden, dt, Name::kAttentionTemp);
  Var decay = mul(g, a_vector, dt, Name::kRouter);
  {
    Var in_chunks[] = {padded(g, hidden), padded(g, decay), padded(g, keys), padded(g, queries)};
    hidden = std::move(in_chunks[0]);
    decay = std::move(in_chunks[1]);
    keys = std::move(in_chunks[2]);
    queries = std::move(in_chunks[3]);
  }
  const Var sums = running_sum(g, decay, Name::kRouter);
  const Var within = decay_between(g, decay, n.chunks * n.heads, n.chunk, Name::kScores);
  const std::int64_t pairs = n.tokens * n.chunk * n.heads;
  const Var weights = mul_sum(g, queries, keys, pairs * n.state, pairs, Name::kScores);
  const Var masked = mul_sum(g, weights, within, pairs, pairs, Name::kScores);
  Var inside = mul_sum(g, masked, hidden, pairs * n.dim, n.tokens * n.heads * n.dim, Name::kAttentionOutput);
  Var to_end;
  {
    const Var difference = add(g, sums, sums, Name::kRouter);
    to_end = keeps_result(g, difference, Name::kRouter);
  }
  const Var fading = mul(g, keys, to_end, Name::kKey);
  const std::int64_t state = n.heads * n.dim * n.state;
  Var states;
  {
    const Var of_chunks = mul_sum(g, fading, hidden, n.tokens * state, n.chunks * state, Name::kHidden);
    const Var first = g.alloc(n.batch * state, 4, Name::kHidden);
    states = cat(g, first, of_chunks, Name::kHidden);
  }
  const std::int64_t ends = n.per_sequence + 1;
  const Var ended = slice(g, sums, n.batch * n.heads * ends, true);
  const Var between = decay_between(g, ended, n.batch * n.heads, ends, Name::kRouter);
  const Var carried = mul_sum(g, between, states, n.batch * ends * ends * state, n.batch * ends * state, Name::kHidden);
  const Var before = slice(g, carried, n.chunks * state, true);
  const Var fade = keeps_result(g, sums, Name::kRouter);
  Var spread = mul_sized(g, queries, before, n.tokens * state, Name::kAttentionTemp);
  Var across =
      mul(g, sum_along(g, spread, n.tokens * n.heads * n.dim, Name::kAttentionOutput), fade, Name::kAttentionOutput);
  Var output = add(g, inside, across, Name::kAttentionOutput);
  output = add(g, output, skip, Name::kAttentionOutput);
  skip.reset();
  inside.reset();
  spread.reset();
  across.reset();
  return output;
}

// RMS norm of what the gate lets through; without a norm there is nothing in fp32 but the scan's result.
Var gated_norm(Graph& g, const Model& m, const Var& x, const Var& gate, const NormIds& ids) {
  if (ids.w < 0) return mul(g, x, keeps_input(g, gate, Name::kActivation), Name::kAttentionOutput);
  Var hidden = cast(g, x, 4, Name::kNormFp32);
  {
    const Var wide = cast(g, gate, 4, Name::kNormFp32);
    const Var open = keeps_input(g, wide, Name::kNormFp32);
    hidden = mul(g, hidden, open, Name::kNormFp32);
  }
  const Var variance = mean_rows(g, pow(g, hidden, Name::kHidden), m.tokens(), Name::kNormStats);
  const Var inverse = rsqrt(g, add_number(g, variance, Name::kNormStats), Name::kNormStats);
  hidden = mul(g, hidden, inverse, Name::kNormFp32);
  return mul(g, g.use(ids.w), hidden, Name::kNormOutput);
}

}  // namespace

Var mamba_mixer(Graph& g, const Model& m, const model::StateSpace& s, const MambaIds& ids, const Var& x) {
  g.tape().at(Operation::kQkvLinear);
  Var projected, scaled;
  if (m.family.scaled_parts) {
    scaled = scale(g, x, Name::kHidden);
    projected = project(g, m, scaled, ids.in, Name::kQkv);
    // By a vector in the type of the weights: fp32 ones widen what autocast has made of the projection.
    projected = mul(g, projected, g.constant(projected.elements / m.tokens(), m.width), Name::kQkv);
  } else {
    projected = project(g, m, x, ids.in, Name::kQkv);
  }
  const Var logarithm = cast(g, g.use(ids.a_log), 4, Name::kRouter);
  const Var power = keeps_result(g, logarithm, Name::kRouter);
  const Var a = neg(g, power, Name::kRouter);
  const std::int64_t inner = s.inner() / m.tensor;
  const std::int64_t channels = s.conv_channels() / m.tensor;
  auto parts = split(g, projected, {m.tokens() * inner, m.tokens() * channels, m.tokens() * s.heads / m.tensor}, false);
  g.tape().at(Operation::kCoreAttention);
  Var convolved = convolve(g, m, parts[1], s, ids);
  const std::int64_t grouped = m.tokens() * s.groups * s.state / m.tensor;
  auto mixed = split(g, convolved, {m.tokens() * inner, grouped, grouped}, false);
  scaled.reset();
  const Var output = scan(g, m, s, ids, mixed[0], mixed[1], mixed[2], parts[2], a);
  const Var normed = gated_norm(g, m, output, parts[0], ids.norm);
  g.tape().at(Operation::kProjection);
  Var result = project(g, m, cast(g, normed, x.width, Name::kAttentionOutput), ids.out, Name::kHidden);
  // What the code names goes in this order, before what the norm returned.
  for (Var& part : parts) part.reset();
  projected.reset();
  for (Var& part : mixed) part.reset();
  convolved.reset();
  return result;
}

}  // namespace plimsoll::step::transformers
