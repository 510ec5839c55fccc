// SPDX-License-Identifier: Apache-2.0
// A device as its driver names it ("NVIDIA H100 80GB HBM3"), found in the catalogue.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cluster/cluster.h"

namespace plimsoll::cluster {

// Nearest in memory among those it is named like; nothing where none is.
[[nodiscard]] std::optional<Gpu> gpu_of_device(std::string_view name, std::int64_t memory);

}  // namespace plimsoll::cluster
