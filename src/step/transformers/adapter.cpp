// SPDX-License-Identifier: Apache-2.0
// A projection as PEFT wraps it: the frozen base, and beside it B(A(dropout(x))) * scale in the adapter's
// dtype (facts other-frameworks-memory.md 3.1 to 3.3).
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// DoRA rebuilds B*A and the norm of the merged weight each time, without gradients: an identity, its
// image through A and B, the dequantised weight and their sum.
void weight_norm(Graph& g, const Model& m, const LinearIds& ids) {
  const Weight& base = m.weights[static_cast<std::size_t>(ids.w)];
  const std::uint8_t width = m.weights[static_cast<std::size_t>(ids.lora_a)].width;
  const std::int64_t in = base.elements / base.rows;
  Var identity = g.alloc(in * in, width, Name::kDequantized);
  Var image = g.alloc(base.elements, width, Name::kDequantized);
  identity.reset();
  Var weight = cast(g, g.constant(base.elements, base.width), width, Name::kDequantized);
  Var merged = g.alloc(base.elements, width, Name::kDequantized);
  Var norm = g.alloc(base.rows, width, Name::kDequantized);
}

}  // namespace

Var project(Graph& g, const Model& m, const Var& x, const LinearIds& ids, Name name) {
  Var result;
  if (m.weights[static_cast<std::size_t>(ids.w)].quantized) {
    result = quantized_linear(g, x, ids.w, ids.bias, name);
  } else {
    result = linear(g, x, ids.w, ids.bias, name);
  }
  if (ids.lora_a < 0) return result;
  const std::uint8_t result_width = result.width;
  const std::uint8_t adapter_width = m.weights[static_cast<std::size_t>(ids.lora_a)].width;
  // PEFT casts the input to the adapter's dtype; autocast then casts that copy to 16 bits again. An input
  // that already has the adapter's dtype (a norm's fp32 output) is not copied.
  Var input = cast(g, x, adapter_width, Name::kAdapterInput);
  input = dropout(g, input, m.job->adapter.dropout, Name::kAdapterInput);
  Var hidden = linear(g, input, ids.lora_a, -1, Name::kAdapterInput);
  Var up = linear(g, hidden, ids.lora_b, -1, Name::kHidden);
  hidden.reset();
  if (ids.magnitude >= 0) {
    weight_norm(g, m, ids);
    Var magnitude = g.use(ids.magnitude);
    Var scaled = mul(g, magnitude, up, Name::kAdapterInput);
    Var base = mul(g, magnitude, result, Name::kAdapterInput);
    result = add(g, base, scaled, name);
  } else {
    Var scaled = scale(g, up, Name::kHidden);
    up.reset();
    result = add(g, result, scaled, name);
  }
  return cast(g, result, result_width, name);
}

}  // namespace plimsoll::step::transformers
