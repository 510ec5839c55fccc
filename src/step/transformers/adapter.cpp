// SPDX-License-Identifier: Apache-2.0
// A projection as PEFT wraps it: the frozen base, and beside it B(A(dropout(x))) * scale in the adapter's
// dtype (facts other-frameworks-memory.md 3.1 to 3.3).
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// B(A(x)), each in the adapter's dtype or autocast's.
Var low_rank(Graph& g, const Var& x, const LinearIds& ids) {
  Var hidden = linear(g, x, ids.lora_a, -1, Name::kAdapterInput);
  return linear(g, hidden, ids.lora_b, ids.lora_bias, Name::kHidden);
}

// DoRA scales every column by magnitude over the norm of the merged weight. The norm is rebuilt in each call
// without gradients: an identity sent through A and B, the base weight in the input's dtype, and their sum.
Var magnitude_scaled(Graph& g, const Var& x, const Var& base_result, const LinearIds& ids) {
  const Weight& base = g.weight(ids.w);
  const std::int64_t in = base.elements / base.out;
  const std::uint8_t width = g.weight(ids.lora_a).width;
  Var identity = g.alloc(in * in, width, Name::kDequantized);
  Var image = g.alloc(base.elements, width, Name::kDequantized);
  const Var weight =
      base.quantized || base.width != x.width ? g.alloc(base.elements, x.width, Name::kDequantized) : Var{};
  {
    Var scaled = g.alloc(base.elements, width, Name::kDequantized);
    Var merged = g.alloc(base.elements, width, Name::kDequantized);
    scaled.reset();
    Var norm = g.alloc(base.out, width, Name::kDequantized);
  }
  const Var magnitude = g.use(ids.magnitude);
  Var lora = low_rank(g, x, ids);
  Var shifted = add_number(g, magnitude, Name::kAdapterInput);
  Var from_base = mul(g, shifted, base_result, Name::kHidden);
  Var from_lora = mul(g, magnitude, lora, Name::kHidden);
  from_lora = scale(g, from_lora, Name::kHidden);
  return add(g, from_base, from_lora, Name::kHidden);
}

}  // namespace

Var project(Graph& g, const Model& m, const Var& x, const LinearIds& ids, Name name) {
  const bool quantized = g.weight(ids.w).quantized;
  const bool eight_bit = quantized && m.job->adapter.eight_bit_base;
  Var result;
  if (eight_bit) {
    result = eight_bit_linear(g, x, ids.w, ids.bias, m.job->precision.compute == job::DType::kFp16, name);
  } else if (quantized) {
    result = quantized_linear(g, x, ids.w, ids.bias, name);
  } else if (m.family.loose_bias) {
    result = linear(g, x, ids.w, -1, name);
    if (ids.bias >= 0) result = add(g, result, g.use(ids.bias), name);
  } else {
    result = linear(g, x, ids.w, ids.bias, name);
  }
  if (ids.lora_a < 0 || !g.adapters) return result;
  if (quantized && !eight_bit) result = copy(g, result, name);
  const std::uint8_t result_width = result.width;
  // Above a quantised base autocast does the conversion; elsewhere PEFT converts to the adapter's dtype itself.
  Var input = quantized && g.autocast ? x : cast(g, x, g.weight(ids.lora_a).width, Name::kAdapterInput);
  input = dropout(g, input, m.job->adapter.dropout, Name::kAdapterInput);
  if (ids.magnitude >= 0) {
    const Var scaled = magnitude_scaled(g, input, result, ids);
    result = add(g, result, scaled, name);
  } else {
    Var scaled;
    {
      Var up = low_rank(g, input, ids);
      scaled = scale(g, up, Name::kHidden);
    }
    result = add(g, result, scaled, name);
  }
  return cast(g, result, result_width, name);
}

Var embed_words(Graph& g, const Model& m, const Var& ids, std::int64_t tokens, std::int64_t hidden) {
  Var x;
  if (m.token_rows >= 0 && g.adapters) {
    const Weight& table = g.weight(m.embedding);
    x = embedding(g, ids, tokens, hidden, with_trained_rows(g, m.embedding, m.token_rows), table.rows);
  } else {
    x = embedding(g, ids, tokens, hidden, m.embedding);
  }
  if (m.embedding_adapter.lora_a < 0 || !g.adapters) return x;
  const std::int64_t rank = g.weight(m.embedding_adapter.lora_a).elements / g.weight(m.embedding_adapter.lora_a).rows;
  Var low = embedding(g, ids, tokens, rank, m.embedding_adapter.lora_a);
  Var up = linear(g, low, m.embedding_adapter.lora_b, -1, Name::kHidden);
  low.reset();
  Var scaled = scale(g, up, Name::kHidden);
  up.reset();
  const std::uint8_t width = x.width;
  return cast(g, add(g, x, scaled, Name::kHidden), width, Name::kHidden);
}

}  // namespace plimsoll::step::transformers
