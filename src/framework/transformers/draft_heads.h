// SPDX-License-Identifier: Apache-2.0
// Heads and small models that guess tokens ahead of a large one (Medusa, EAGLE, speculators).
#pragma once

#include "base/result.h"
#include "document/node.h"

namespace plimsoll::job {

// They alone are trained, beside a frozen model: counted as training of that model the answer would be wrong.
[[nodiscard]] Status refuse_draft_heads(const document::Node& root);

}  // namespace plimsoll::job
