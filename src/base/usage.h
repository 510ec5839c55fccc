// SPDX-License-Identifier: Apache-2.0
// The error of a question that cannot be asked so: a flag, key or combination that does not exist.
#pragma once

#include "base/result.h"

namespace plimsoll {

[[gnu::cold, nodiscard]] tl::unexpected<Error> usage_error(std::string message, std::string hint = {});

}  // namespace plimsoll
