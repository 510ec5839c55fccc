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
  }
  return 2;
}

double half_depth(const Machine& machine, Number number) {
  return number == Number::kBf16 ? machine.calibration->gemm_half_depth_bf16 : machine.calibration->gemm_half_depth_fp8;
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
  return flops * (1 + half_depth(machine, number) / depth) * tail;
}

// Smaller heads leave the matrix units idle while the softmax runs.
double head_rate(const Machine& machine, double head_dim) {
  if (head_dim >= kTile || head_dim <= 0) return 1;
  return std::pow(head_dim / kTile, machine.calibration->attention_small_head);
}

}  // namespace

double gemm_seconds(const Machine& machine, Number number, double rows, double columns, double depth,
                    double output_bytes) {
  if (rows <= 0 || columns <= 0 || depth <= 0) return 0;
  const double bytes = operand_bytes(number) * (rows * depth + depth * columns) + output_bytes * rows * columns;
  return std::max(compute_seconds(machine, number, rows, columns, depth), bytes / machine.stream) +
         machine.calibration->kernel_floor;
}

double grouped_gemm_seconds(const Machine& machine, Number number, double rows, double columns, double depth,
                            double groups, double output_bytes, double rate) {
  if (rows <= 0 || columns <= 0 || depth <= 0 || groups <= 0) return 0;
  // Every group ends in a partly filled tile.
  const double padded = rows + groups * machine.calibration->gemm_small_rows;
  const double compute = compute_seconds(machine, number, padded, columns, depth) / rate;
  const double bytes =
      operand_bytes(number) * (rows * depth + groups * depth * columns) + output_bytes * rows * columns;
  return std::max(compute, bytes / machine.stream) + machine.calibration->kernel_floor;
}

double grouped_weight_gradient_seconds(const Machine& machine, Number number, double rows, double columns, double depth,
                                       double groups, double output_bytes, double rate) {
  if (rows <= 0 || columns <= 0 || depth <= 0 || groups <= 0) return 0;
  const double each = rows / groups;
  const double flops = 2 * rows * columns * depth / machine.gemm[static_cast<std::size_t>(number)];
  const double compute = flops * (1 + half_depth(machine, number) / each) / rate;
  const double bytes = operand_bytes(number) * rows * (columns + depth) + output_bytes * groups * columns * depth;
  return std::max(compute, bytes / machine.stream) + machine.calibration->kernel_floor;
}

double attention_forward_seconds(const Machine& machine, double flops, double head_dim) {
  return flops / (machine.attention_forward * head_rate(machine, head_dim)) +
         machine.calibration->attention_tail_forward;
}

double attention_backward_seconds(const Machine& machine, double flops, double head_dim) {
  constexpr double kProducts = 2.5;  // five matrix products against two
  return kProducts * flops / (machine.attention_backward * head_rate(machine, head_dim)) +
         machine.calibration->attention_tail_backward;
}

double stream_seconds(const Machine& machine, double bytes, double kernels) {
  return bytes / machine.stream + kernels * machine.calibration->kernel_floor;
}

}  // namespace plimsoll::timing
