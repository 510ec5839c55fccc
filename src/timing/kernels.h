// SPDX-License-Identifier: Apache-2.0
// Seconds of single kernels (facts step-time.md 3 to 5; rates learned from kernels-h200.json).
#pragma once

#include "timing/machine.h"

namespace plimsoll::timing {

// rows x columns x depth, once. output_bytes: per element of the result, so that a weight gradient that
// accumulates in fp32 counts its read and its write.
[[nodiscard]] double gemm_seconds(const Machine& machine, Number number, double rows, double columns, double depth,
                                  double output_bytes);

// `groups` products whose rows together are `rows`; rate: against one product of the same rows.
[[nodiscard]] double grouped_gemm_seconds(const Machine& machine, Number number, double rows, double columns,
                                          double depth, double groups, double output_bytes, double rate);

// Its weight gradient: each group reduces over its share of the rows.
[[nodiscard]] double grouped_weight_gradient_seconds(const Machine& machine, Number number, double rows, double columns,
                                                     double depth, double groups, double output_bytes, double rate);

// flops: of the forward, causal half only.
[[nodiscard]] double attention_forward_seconds(const Machine& machine, double flops, double head_dim);
[[nodiscard]] double attention_backward_seconds(const Machine& machine, double flops, double head_dim);

[[nodiscard]] double stream_seconds(const Machine& machine, double bytes, double kernels);

}  // namespace plimsoll::timing
