// SPDX-License-Identifier: Apache-2.0
// Job keys as flags: which names there are, and whether one stands alone (--sequence-parallel).
#pragma once

#include <string>
#include <string_view>

#include "cli/arguments.h"

namespace plimsoll::cli {

[[nodiscard]] KeySet job_keys();

}  // namespace plimsoll::cli
