// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/reduce.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kMaxThreads = 512;
constexpr std::int64_t kThreadsPerMultiprocessor = 2048;
constexpr std::int64_t kMinValuesPerThread = 16;
constexpr std::int64_t kMaxValuesPerThread = 256;

std::int64_t last_power_of_2(std::int64_t n) {
  return n <= 0 ? 1 : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
}

}  // namespace

ReduceScratch outer_reduce_scratch(std::int64_t outputs, std::int64_t inputs, std::int64_t multiprocessors) {
  if (outputs <= 0 || inputs <= 0) return {};
  // Outputs are read as vectors of up to four; a block is a warp of outputs times rows of inputs.
  std::int64_t vector = 4;
  while (outputs % vector != 0) vector /= 2;
  const std::int64_t limit = kMaxThreads / vector;
  const std::int64_t columns = std::min(limit, last_power_of_2(outputs / vector));
  const std::int64_t rows = std::min(limit, last_power_of_2(inputs));
  std::int64_t width = std::min(columns, kWarp);
  const std::int64_t height = std::min(rows, limit / width);
  width = std::min(columns, limit / height);
  const std::int64_t grid = ceil_div(outputs / vector, width);
  std::int64_t values = inputs;
  const bool splits_rows = values >= height * kMinValuesPerThread || values >= kMaxValuesPerThread;
  if (!splits_rows) return {};
  values = ceil_div(values, height);
  const std::int64_t target = multiprocessors * (kThreadsPerMultiprocessor / (width * height));
  if (values < kMaxValuesPerThread || grid > target) return {};
  const std::int64_t blocks = std::max(std::min(ceil_div(target, grid), ceil_div(values, kMinValuesPerThread)),
                                       ceil_div(values, kMaxValuesPerThread));
  if (blocks <= 1) return {};
  return {4 * outputs * blocks * width * vector, 4 * grid};
}

std::int64_t convolution_workspace(std::int64_t inputs, std::int64_t weights, std::int64_t outputs,
                                   std::int64_t channels, std::int64_t width) {
  if (width != 2 || channels <= 0) return 0;
  constexpr std::int64_t kTogether = 8;
  constexpr std::int64_t kPlan = 16;
  const std::int64_t padded = (channels + kTogether - 1) / kTogether * kTogether;
  return width * ((inputs + weights) / channels * padded + outputs) + kPlan;
}

std::int64_t patch_channels(std::int64_t patches_of_an_image) {
  constexpr std::int64_t kColours = 3;
  constexpr std::int64_t kLargeImage = 1024;
  return patches_of_an_image < kLargeImage ? kColours : 0;
}

}  // namespace plimsoll::step::transformers
