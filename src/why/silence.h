// SPDX-License-Identifier: Apache-2.0
// The answer where no line says that anything failed, and what such silence is worth.
#pragma once

#include "why/diagnosis.h"
#include "why/findings.h"

namespace plimsoll::why {

// `diagnosis`: what is known of the run without an event.
[[nodiscard]] Diagnosis no_failure(const Findings& findings, Diagnosis diagnosis);

}  // namespace plimsoll::why
