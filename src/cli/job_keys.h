// SPDX-License-Identifier: Apache-2.0
// Job keys as flags: which names there are, and whether one stands alone (--sequence-parallel).
#pragma once

#include <string>
#include <string_view>

#include "cli/arguments.h"

namespace plimsoll::cli {

[[nodiscard]] KeySet job_keys();

// The key behind a short name of the glossary (tp, pp, vpp, cp, ep, etp); any other name is returned as it is.
[[nodiscard]] std::string full_key_name(std::string_view name);

}  // namespace plimsoll::cli
