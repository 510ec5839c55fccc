// SPDX-License-Identifier: Apache-2.0
// Keys of precision. `recipe` is Bridge's name for a whole set of them (facts megatron-memory.md 3.3);
// readers apply it first, so that a single key given beside it wins.
#include <fmt/format.h>

#include "base/suggest.h"
#include "base/text.h"
#include "job/keys/table.h"

namespace plimsoll::job {

namespace {

using enum Moves;

using document::Node;

struct Recipe {
  std::string_view name;
  std::string_view short_name = {};
  DType base = DType::kBf16;
  std::optional<Fp8Recipe> fp8 = std::nullopt;
  bool param_gather = false;
  bool reuse_grad_buffer = false;
  bool first_last_bf16 = false;
  bool fp4 = false;
  bool fp4_param_gather = false;
  std::int64_t bf16_at_start = 0;
  std::int64_t bf16_at_end = 0;
};

// Bridge's training/mixed_precision.py. Its NVFP4 recipe keeps the weights in 16 bits before 0.5.
constexpr Recipe kRecipes[] = {
    {.name = "fp32", .short_name = "32", .base = DType::kFp32},
    {.name = "bf16_mixed", .short_name = "bf16"},
    {.name = "fp16_mixed", .short_name = "fp16", .base = DType::kFp16},
    {.name = "bf16_with_fp8_delayed_scaling_mixed",
     .short_name = "fp8_ds",
     .fp8 = Fp8Recipe::kDelayed,
     .param_gather = true},
    {.name = "bf16_with_fp8_current_scaling_mixed",
     .short_name = "fp8_cs",
     .fp8 = Fp8Recipe::kTensorwise,
     .param_gather = true,
     .first_last_bf16 = true,
     .bf16_at_start = 1,
     .bf16_at_end = 1},
    {.name = "bf16_with_fp8_subchannel_scaling_mixed", .short_name = "fp8_sc", .fp8 = Fp8Recipe::kBlockwise},
    {.name = "bf16_with_mxfp8_mixed",
     .short_name = "fp8_mx",
     .fp8 = Fp8Recipe::kMxfp8,
     .param_gather = true,
     .reuse_grad_buffer = true},
    {.name = "bf16_with_nvfp4_mixed", .short_name = "nvfp4", .fp4 = true, .fp4_param_gather = true},
    {.name = "nemotron_h_bf16_with_fp8_current_scaling_mixed",
     .fp8 = Fp8Recipe::kTensorwise,
     .param_gather = true,
     .first_last_bf16 = true,
     .bf16_at_start = 2,
     .bf16_at_end = 2},
    {.name = "nanov2_bf16_with_fp8_current_scaling_mixed",
     .fp8 = Fp8Recipe::kBlockwise,
     .param_gather = true,
     .first_last_bf16 = true,
     .bf16_at_start = 2,
     .bf16_at_end = 2},
    {.name = "nemotron_3_super_bf16_with_nvfp4_mixed",
     .first_last_bf16 = true,
     .fp4 = true,
     .fp4_param_gather = true,
     .bf16_at_end = 14},
};

Status set_recipe(Job& job, const Node& value) {
  PLIMSOLL_TRY(word, to_word(value));
  const std::string name = replace(lower(word), '-', '_');
  std::vector<std::string> names;
  for (const Recipe& recipe : kRecipes) {
    if (!recipe.short_name.empty()) names.emplace_back(recipe.short_name);
    names.emplace_back(recipe.name);
    if (name != recipe.name && (name.empty() || name != recipe.short_name)) continue;
    Precision& precision = job.precision;
    job.asked.bf16 = recipe.base == DType::kBf16;
    job.asked.fp16 = recipe.base == DType::kFp16;
    job.asked.fp8 = recipe.fp8.has_value();
    job.asked.fp8_recipe = recipe.fp8.value_or(Fp8Recipe::kDelayed);
    precision.fp8_param_gather = recipe.param_gather;
    precision.reuse_grad_buffer_for_mxfp8 = recipe.reuse_grad_buffer;
    precision.first_last_layers_bf16 = recipe.first_last_bf16;
    precision.fp4 = recipe.fp4;
    precision.fp4_param_gather = recipe.fp4_param_gather;
    precision.bf16_layers_at_start = recipe.bf16_at_start;
    precision.bf16_layers_at_end = recipe.bf16_at_end;
    job.optimizer.grad_reduce_in_fp32 = recipe.base != DType::kFp16;
    for (const char* key : {"bf16", "fp16", "fp8", "fp8_recipe", "fp8_param_gather", "fp4", "grad_reduce_in_fp32"})
      job.given.insert(key);
    return {};
  }
  return bad_input(fmt::format("found {}, wanted {}", shown(value), join(names, ", ")),
                   did_you_mean(document::to_text(value), names));
}

// Megatron's fp8 is a format name; true and false are accepted too.
Status set_fp8(Job& job, const Node& value) {
  PLIMSOLL_TRY(word, to_word(value));
  const std::string name = lower(word);
  const bool on = name == "hybrid" || name == "e4m3" || name == "true";
  if (!on && name != "none" && name != "false")
    return bad_input(fmt::format("found {}, wanted e4m3, hybrid or none", shown(value)));
  job.asked.fp8 = on;
  return {};
}

Status set_fp4(Job& job, const Node& value) {
  PLIMSOLL_TRY(word, to_word(value));
  const std::string name = lower(word);
  const bool on = name == "e2m1" || name == "true" || name == "nvfp4";
  if (!on && name != "none" && name != "false")
    return bad_input(fmt::format("found {}, wanted e2m1 or none", shown(value)));
  job.precision.fp4 = on;
  return {};
}

Status set_no_transpose_cache(Job& job, const Node& value) {
  PLIMSOLL_TRY(on, to_bool(value));
  job.precision.fp8_transpose_cache = !on;
  return {};
}

const Key kPrecisionKeys[] = {
    {"recipe", kBoth,
     Custom{set_recipe, "bf16, fp16, fp32, fp8_ds, fp8_cs, fp8_sc, fp8_mx, nvfp4, or Bridge's long names"},
     "a set of precision keys; single keys beside it win"},
    {"bf16", kBoth, PLIMSOLL_FIELD(asked.bf16), "train in bf16"},
    {"fp16", kBoth, PLIMSOLL_FIELD(asked.fp16), "train in fp16"},
    {"tf32", kSeconds, PLIMSOLL_FIELD(precision.tf32), "fp32 products run on the tensor cores (TensorFloat-32)"},
    {"load_dtype", kBoth, PLIMSOLL_FIELD(precision.load_dtype),
     "dtype that Transformers loads the weights in (torch_dtype)"},
    {"params_dtype", kBoth, PLIMSOLL_FIELD(precision.params), "storage of the working weights"},
    {"compute_dtype", kBoth, PLIMSOLL_FIELD(precision.compute), "dtype of activations"},
    {"autocast", kBoth, PLIMSOLL_FIELD(precision.autocast), "fp32 weights are cast to compute_dtype at use"},
    {"fp8", kBoth, Custom{set_fp8, "e4m3, hybrid, none"}, "GEMMs run in FP8"},
    {"fp8_recipe", kBoth, PLIMSOLL_FIELD(asked.fp8_recipe), "how FP8 scales are found; acts only with fp8"},
    {"float8_filter", kBytes, PLIMSOLL_FIELD(kernels.float8_filter),
     "torchtitan: linears whose names contain one of these stay in 16 bits; auto_filter_small_kn: small ones, too"},
    {"fp8_param_gather", kBoth, PLIMSOLL_FIELD(precision.fp8_param_gather), "weights are kept in FP8"},
    {"disable_parameter_transpose_cache", kBytes, Custom{set_no_transpose_cache, "boolean"},
     "FP8 copies of weights are rebuilt every micro-batch"},
    {"fp8_dot_product_attention", kBoth, PLIMSOLL_FIELD(precision.fp8_attention), "attention runs in FP8"},
    {"activation_func_fp8_input_store", kBytes, PLIMSOLL_FIELD(precision.fp8_activation_store),
     "the input of SwiGLU is kept in FP8"},
    {"reuse_grad_buf_for_mxfp8_param_ag", kBytes, PLIMSOLL_FIELD(precision.reuse_grad_buffer_for_mxfp8),
     "gathered MXFP8 weights pass through the gradient buffer"},
    {"first_last_layers_bf16", kBoth, PLIMSOLL_FIELD(precision.first_last_layers_bf16),
     "the outer layers stay in bf16"},
    {"num_layers_at_start_in_bf16", kBoth, PLIMSOLL_FIELD(precision.bf16_layers_at_start), "how many at the start",
     kSizeOrZero},
    {"num_layers_at_end_in_bf16", kBoth, PLIMSOLL_FIELD(precision.bf16_layers_at_end), "how many at the end",
     kSizeOrZero},
    {"fp4", kBoth, Custom{set_fp4, "e2m1, none"}, "GEMMs run in NVFP4"},
    {"fp4_param_gather", kBoth, PLIMSOLL_FIELD(precision.fp4_param_gather), "weights are kept in NVFP4"},
    {"fp32_residual_connection", kBytes, PLIMSOLL_FIELD(precision.fp32_residual), "the residual stream is fp32"},
};

}  // namespace

std::span<const Key> precision_key_rows() { return kPrecisionKeys; }

}  // namespace plimsoll::job
