// SPDX-License-Identifier: Apache-2.0
#include "cluster/device_name.h"

#include <cstdlib>

#include "base/text.h"

namespace plimsoll::cluster {

std::optional<Gpu> gpu_of_device(std::string_view name, std::int64_t memory) {
  // A name that the catalogue has, unless there is another amount of memory under it.
  constexpr std::int64_t kTenth = 10;
  if (auto found = find_gpu(name); found && std::abs(found->capacity - memory) <= memory / kTenth) return *found;
  std::string given = lower(name);
  std::erase_if(given, [](char c) { return c == ' ' || c == '-'; });
  const Gpu* best = nullptr;
  const auto distance = [memory](const Gpu& gpu) { return std::abs(gpu.capacity - memory); };
  for (const Gpu& gpu : catalog_gpus()) {
    const std::string model = lower(gpu.id.substr(0, gpu.id.find('-')));
    if (given.find(model) == std::string::npos) continue;
    if (best == nullptr || distance(gpu) < distance(*best)) best = &gpu;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

}  // namespace plimsoll::cluster
