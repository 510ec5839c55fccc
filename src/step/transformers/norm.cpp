// SPDX-License-Identifier: Apache-2.0
// Norms: Transformers writes RMSNorm as a chain of operations in fp32; LayerNorm, Liger and torchtitan use
// one kernel (facts other-frameworks-memory.md 2.2, 2.5).
#include "step/transformers/model.h"
#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

// x * rsqrt(mean(x^2) + eps), in fp32. Values die as the Python expressions drop them.
Var normalise(Graph& g, const Var& x, std::int64_t rows, Var& variance) {
  {
    Var square = pow(g, x, Name::kHidden);
    variance = mean_rows(g, square, rows, Name::kNormStats);
  }
  Var with_epsilon = add_number(g, variance, Name::kNormStats);
  Var inverse = rsqrt(g, with_epsilon, Name::kNormStats);
  with_epsilon.reset();
  return mul(g, x, inverse, Name::kNormFp32);
}

Var llama_norm(Graph& g, const Model& m, const Var& x, std::int64_t rows, const NormIds& ids, Name name) {
  Var variance;
  Var hidden = cast(g, x, 4, Name::kNormFp32);
  hidden = normalise(g, hidden, rows, variance);
  if (m.family.weight_in_fp32) {
    const Var weighted = mul(g, g.use(ids.w), hidden, Name::kNormFp32);
    return cast(g, weighted, x.width, name);
  }
  const Var normalised = cast(g, hidden, x.width, Name::kNormOutput);
  if (ids.w < 0) return normalised;
  return mul(g, g.use(ids.w), normalised, name);
}

// The fp32 copy is for the variance alone; its input is kept beside it.
Var narrow_input_norm(Graph& g, const Var& x, std::int64_t rows, const NormIds& ids, Name name) {
  Var hidden;
  {
    Var variance;
    {
      const Var wide = cast(g, x, 4, Name::kNormFp32);
      const Var square = pow(g, wide, Name::kHidden);
      variance = mean_rows(g, square, rows, Name::kNormStats);
    }
    Var with_epsilon = add_number(g, variance, Name::kNormStats);
    const Var inverse = rsqrt(g, with_epsilon, Name::kNormStats);
    with_epsilon.reset();
    hidden = mul(g, x, inverse, Name::kNormFp32);
  }
  const Var w = g.use(ids.w);
  const Var narrow = cast(g, hidden, w.width, Name::kNormOutput);
  hidden.reset();
  return mul(g, w, narrow, name);
}

// Mean and variance of Command-R's LayerNorm are separate operations.
Var centred_norm(Graph& g, const Var& x, std::int64_t rows, const NormIds& ids, Name name) {
  Var variance;
  Var hidden = cast(g, x, 4, Name::kNormFp32);
  Var mean = mean_rows(g, hidden, rows, Name::kNormStats);
  {
    Var centred = subtract(g, hidden, mean, Name::kNormFp32);
    Var square = pow(g, centred, Name::kHidden);
    centred.reset();
    variance = mean_rows(g, square, rows, Name::kNormStats);
  }
  {
    Var centred = subtract(g, hidden, mean, Name::kNormFp32);
    Var with_epsilon = add_number(g, variance, Name::kNormStats);
    Var inverse = rsqrt(g, with_epsilon, Name::kNormStats);
    with_epsilon.reset();
    hidden = mul(g, centred, inverse, Name::kNormFp32);
  }
  {
    Var weight = cast(g, g.use(ids.w), 4, Name::kCastWeight);
    hidden = mul(g, weight, hidden, Name::kNormFp32);
  }
  return cast(g, hidden, x.width, name);
}

// The weight is converted to fp32 and multiplies there.
Var wide_weight_norm(Graph& g, const Var& x, std::int64_t rows, const NormIds& ids, Name name) {
  Var variance;
  Var hidden = cast(g, x, 4, Name::kNormFp32);
  hidden = normalise(g, hidden, rows, variance);
  Var weighted;
  {
    const Var weight = cast(g, g.use(ids.w), 4, Name::kCastWeight);
    weighted = mul(g, weight, hidden, Name::kNormFp32);
  }
  return cast(g, weighted, x.width, name);
}

// The weight (plus one) is applied in fp32 and the result converted at the end.
Var gemma_norm(Graph& g, const Var& x, std::int64_t rows, const NormIds& ids, Name name) {
  Var output;
  {
    const Var hidden = cast(g, x, 4, Name::kNormFp32);
    Var mean;
    {
      Var square = pow(g, hidden, Name::kHidden);
      mean = mean_rows(g, square, rows, Name::kNormStats);
    }
    Var with_epsilon = add_number(g, mean, Name::kNormStats);
    mean.reset();
    Var inverse = rsqrt(g, with_epsilon, Name::kNormStats);
    with_epsilon.reset();
    output = mul(g, hidden, inverse, Name::kNormFp32);
  }
  {
    Var weight = cast(g, g.use(ids.w), 4, Name::kCastWeight);
    Var shifted = add_number(g, weight, Name::kCastWeight);
    weight.reset();
    output = mul(g, output, shifted, Name::kNormFp32);
  }
  return cast(g, output, x.width, name);
}

// x * (mean(x^2) + eps) ^ -1/2, and the weight, all in fp32.
Var power_norm(Graph& g, const Var& x, std::int64_t rows, const NormIds& ids, Name name) {
  Var output;
  {
    const Var hidden = cast(g, x, 4, Name::kNormFp32);
    Var mean;
    {
      const Var square = pow(g, hidden, Name::kHidden);
      mean = mean_rows(g, square, rows, Name::kNormStats);
    }
    const Var with_epsilon = add_number(g, mean, Name::kNormStats);
    mean.reset();
    const Var inverse = pow(g, with_epsilon, Name::kNormStats);
    output = mul(g, hidden, inverse, Name::kNormFp32);
  }
  if (ids.w >= 0) {
    const Var weight = cast(g, g.use(ids.w), 4, Name::kCastWeight);
    output = mul(g, output, weight, Name::kNormFp32);
  }
  return cast(g, output, x.width, name);
}

}  // namespace

Var norm(Graph& g, const Model& m, const Var& x, std::int64_t rows, const NormIds& ids, Name name) {
  const model::Architecture& a = m.architecture();
  switch (m.family.norm) {
    case NormForm::kUsual:
      break;
    case NormForm::kCentred:
      return centred_norm(g, x, rows, ids, name);
    case NormForm::kPlusOne:
      return shifted_layer_norm(g, x, rows, ids.w, ids.bias, name);
    case NormForm::kBare: {
      const Var wide = cast(g, x, 4, Name::kCastInput);
      const Var normalised = layer_norm(g, wide, rows, -1, -1, Name::kNormFp32);
      return cast(g, normalised, x.width, name);
    }
    case NormForm::kNarrowed:
      return cast(g, layer_norm(g, x, rows, ids.w, ids.bias, name), x.width, name);
    case NormForm::kNarrowInput:
      return narrow_input_norm(g, x, rows, ids, name);
    case NormForm::kWideWeight:
      return wide_weight_norm(g, x, rows, ids, name);
    case NormForm::kPower:
      return power_norm(g, x, rows, ids, name);
  }
  if (a.norm != model::NormKind::kRms) return layer_norm(g, x, rows, ids.w, ids.bias, name);
  if (m.torchtitan) return rms_norm(g, x, rows, ids.w, name);
  if (m.liger && ids.w >= 0) return liger_norm(g, x, rows, ids.w, name);
  if (a.norm_in_fp32_to_the_end) return gemma_norm(g, x, rows, ids, name);
  return llama_norm(g, m, x, rows, ids, name);
}

}  // namespace plimsoll::step::transformers
