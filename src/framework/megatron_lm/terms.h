// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "emit/settings.h"

namespace plimsoll::emit {

// What Megatron-LM and Bridge say in keys of their own: precision switches, fused losses, dispatchers, sharding.
[[nodiscard]] std::vector<Setting> megatron_terms(const job::Job& job, job::Framework framework);

}  // namespace plimsoll::emit
