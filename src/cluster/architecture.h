// SPDX-License-Identifier: Apache-2.0
// Architectures of GPUs by name, as catalogues and tables spell them.
#pragma once

#include <string_view>

#include "cluster/cluster.h"

namespace plimsoll::cluster {

[[nodiscard]] std::string_view name_of(Architecture architecture);

}  // namespace plimsoll::cluster
