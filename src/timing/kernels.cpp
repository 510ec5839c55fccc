// SPDX-License-Identifier: Apache-2.0
#include "timing/kernels.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::timing {

namespace {

constexpr double kTile = 128;

double operand_bytes(Number number) {
  switch (number) {
    case Number::kBf16:
      return 2;
    case Number::kFp8:
      return 1;
    case Number::kMxfp8:
      return 1 + 1.0 / 32;
    case Number::kNvfp4:
      return 0.5 + 1.0 / 16;
    case Number::kTf32:
    case Number::kFp32:
      return 4;
  }
  return 2;
}

// Part of the last wave of tiles that finds no work: the best of the common tile shapes.
double wave_use(const Machine& machine, double rows, double columns) {
  const double m = std::ceil(rows / kTile);
  const double n = std::ceil(columns / kTile);
  const double m2 = std::ceil(rows / (2 * kTile));
  const double n2 = std::ceil(columns / (2 * kTile));
  double best = 0;
  for (const double tiles : {m * n2, m2 * n, m * n}) {
    const double waves = std::ceil(tiles / machine.sms);
    best = std::max(best, tiles / (waves * machine.sms));
  }
  return std::max(best, 0.02);
}

double compute_seconds(const Machine& machine, Number number, double rows, double columns, double depth) {
  const double flops = 2 * rows * columns * depth / machine.gemm[static_cast<std::size_t>(number)];
  const double tail = 1 + machine.calibration->gemm_wave_tail * (1 / wave_use(machine, rows, columns) - 1);
  return flops * (1 + machine.half_depth[static_cast<std::size_t>(number)] / depth) * tail;
}

// Of narrow numbers against bf16.
double speed_of(const Machine& machine, Number number) {
  return machine.gemm[static_cast<std::size_t>(number)] / machine.gemm[static_cast<std::size_t>(Number::kBf16)];
}

// The kernels are made for heads of 128: 64 leaves the matrix units idle while the softmax runs, 96 is padded, 256 does
// not fit the registers.
double head_rate(const Machine& machine, const Head& head) {
  constexpr double kHalf = 64;
  if (head.keys == kTile || head.keys <= 0) return 1;
  if (head.keys <= kHalf) return machine.attention_head_64 * head.keys / kHalf;
  return machine.calibration->attention_other_head;
}

// Wide keys feed the matrix units better: MLA's forward was measured, of its backward no more is taken than that of
// 128.
bool is_latent(const Head& head) { return head.values > 0 && head.values < head.keys && head.keys > kTile; }

// Tiles on the diagonal are computed whole, so that each query pays for some keys more than it sees.
double diagonal(double keys, double more) { return keys > 0 ? 1 + more / keys : 1; }

}  // namespace

double gemm_seconds(const Machine& machine, Number number, double rows, double columns, double depth,
                    double output_bytes) {
  if (rows <= 0 || columns <= 0 || depth <= 0) return 0;
  const double bytes = operand_bytes(number) * (rows * depth + depth * columns) + output_bytes * rows * columns;
  return std::max(compute_seconds(machine, number, rows, columns, depth), bytes / machine.stream) +
         machine.calibration->kernel_floor;
}

double grouped_gemm_seconds(const Machine& machine, Number number, double rows, double columns, double depth,
                            double groups, double output_bytes, const GroupedRate& rate) {
  if (rows <= 0 || columns <= 0 || depth <= 0 || groups <= 0) return 0;
  const double filled = 1 + rate.half_rows * speed_of(machine, number) * groups / rows;
  const double compute = compute_seconds(machine, number, rows, columns, depth) * filled;
  const double bytes =
      operand_bytes(number) * (rows * depth + groups * depth * columns) + output_bytes * rows * columns;
  return std::max(compute, bytes / machine.stream) + machine.calibration->kernel_floor;
}

double grouped_weight_gradient_seconds(const Machine& machine, Number number, double rows, double columns, double depth,
                                       double groups, double output_bytes, const GroupedRate& rate) {
  if (rows <= 0 || columns <= 0 || depth <= 0 || groups <= 0) return 0;
  const double flops = 2 * rows * columns * depth / machine.gemm[static_cast<std::size_t>(number)];
  const double compute = flops * (1 + rate.half_rows_weight * speed_of(machine, number) * groups / rows);
  const double bytes = operand_bytes(number) * rows * (columns + depth) + output_bytes * groups * columns * depth;
  return std::max(compute, bytes / machine.stream) + machine.calibration->kernel_floor;
}

double attention_forward_seconds(const Machine& machine, double flops, const Head& head, double seen) {
  const Calibration& c = *machine.calibration;
  const double rate = is_latent(head) ? machine.attention_latent : head_rate(machine, head);
  return flops * diagonal(seen, c.attention_diagonal_forward) / (machine.attention_forward * rate) +
         c.attention_tail_forward;
}

double attention_backward_seconds(const Machine& machine, double flops, const Head& head, double seen) {
  constexpr double kProducts = 2.5;  // five matrix products against two
  const Calibration& c = *machine.calibration;
  const double rate = is_latent(head) ? 1 : head_rate(machine, head);
  return kProducts * flops * diagonal(seen, c.attention_diagonal_backward) / (machine.attention_backward * rate) +
         c.attention_tail_backward;
}

double scan_seconds(const Machine& machine, double flops) {
  return flops / (machine.sms * machine.calibration->scan_products);
}

double transposed_seconds(const Machine& machine, double elements) {
  return elements / (machine.sms * machine.calibration->transposed_elements);
}

double stream_seconds(const Machine& machine, double bytes, double kernels) {
  return bytes / machine.stream + kernels * machine.calibration->kernel_floor;
}

}  // namespace plimsoll::timing
