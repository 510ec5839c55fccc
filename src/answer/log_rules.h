// SPDX-License-Identifier: Apache-2.0
// The rules of the catalogue as the reader of logs wants them: what each framework prints and what to change.
#pragma once

#include <span>

#include "why/signal.h"

namespace plimsoll::answer {

// A why::ConfigRules; made once, on the first call.
[[nodiscard]] std::span<const why::ConfigRule> catalogue_texts();

}  // namespace plimsoll::answer
