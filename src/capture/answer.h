// SPDX-License-Identifier: Apache-2.0
// The answer of `fit` for a captured step.
#pragma once

#include <string>
#include <vector>

#include "allocator/settings.h"
#include "capture/capture.h"
#include "capture/tape.h"
#include "cluster/cluster.h"
#include "memory/answer.h"

namespace plimsoll::capture {

// What is alive at the peak, by the operation and the module that made it.
struct Holder {
  std::string operation;
  std::string module;  // "model.layers.*.mlp": numbers of layers are left out, so that alike ones add up
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

struct Answer {
  memory::RankAnswer rank;
  std::vector<Holder> holders;  // largest first
  std::string peak_operation;   // whose allocation reached the peak
  std::string peak_place;
  std::vector<std::string> warnings;
};

// The step as PyTorch's allocator on this GPU sees it.
[[nodiscard]] Recorded record_on(const Capture& capture, const cluster::Gpu& gpu);

[[nodiscard]] Answer answer(const Capture& capture, const cluster::Gpu& gpu, const allocator::Settings& settings);
[[nodiscard]] Answer answer(const Capture& capture, const Recorded& recorded, const cluster::Gpu& gpu,
                            const allocator::Settings& settings);

}  // namespace plimsoll::capture
