// SPDX-License-Identifier: Apache-2.0
// Seconds of single kernels (facts step-time.md 3 to 5; rates learned from kernels-h200.json).
#pragma once

#include "timing/machine.h"

namespace plimsoll::timing {

// rows x columns x depth, once. output_bytes: per element of the result, so that a weight gradient that
// accumulates in fp32 counts its read and its write.
[[nodiscard]] double gemm_seconds(const Machine& machine, Number number, double rows, double columns, double depth,
                                  double output_bytes);

// How well products of many weights run: rows per group at which half the rate is reached. Small groups leave
// multiprocessors idle and end in partly filled tiles; the faster the numbers, the more rows it takes.
struct GroupedRate {
  double half_rows = 64;
  double half_rows_weight = 200;  // of the weight gradient, whose depth is the group
};

// `groups` products whose rows together are `rows`.
[[nodiscard]] double grouped_gemm_seconds(const Machine& machine, Number number, double rows, double columns,
                                          double depth, double groups, double output_bytes, const GroupedRate& rate);

// Its weight gradient: each group reduces over its share of the rows.
[[nodiscard]] double grouped_weight_gradient_seconds(const Machine& machine, Number number, double rows, double columns,
                                                     double depth, double groups, double output_bytes,
                                                     const GroupedRate& rate);

// Sizes of a head: of its keys, and of its values where those are narrower (MLA), else 0.
struct Head {
  double keys = 0;
  double values = 0;
};
// flops: of the forward, causal half only; seen: keys that a query sees on average.
// Products inside the kernels of a state-space scan; what they move is a stream beside them.
[[nodiscard]] double scan_seconds(const Machine& machine, double flops);
[[nodiscard]] double transposed_seconds(const Machine& machine, double elements);
[[nodiscard]] double attention_forward_seconds(const Machine& machine, double flops, const Head& head, double seen);
[[nodiscard]] double attention_backward_seconds(const Machine& machine, double flops, const Head& head, double seen);

[[nodiscard]] double stream_seconds(const Machine& machine, double bytes, double kernels);

}  // namespace plimsoll::timing
