// SPDX-License-Identifier: Apache-2.0
// Architectures of GPUs by name, as catalogues and tables spell them.
#pragma once

#include <optional>
#include <string_view>

#include "cluster/cluster.h"

namespace plimsoll::cluster {

[[nodiscard]] std::string_view name_of(Architecture architecture);
[[nodiscard]] bool is_architecture(std::string_view name);

// CUDA compute capability times ten; nothing for GPUs without one.
[[nodiscard]] std::optional<int> compute_capability(Architecture architecture);

// Whether this GPU of the catalogue computes fp16 and not bf16 (Pascal, Volta, Turing). False for one that is not
// there.
[[nodiscard]] bool lacks_bf16(const Gpu& gpu);

}  // namespace plimsoll::cluster
