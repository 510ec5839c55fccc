// SPDX-License-Identifier: Apache-2.0
// The two halves of complete(): what a framework derives from what it was given, and what it refuses.
#pragma once

#include "base/result.h"
#include "job/job.h"

namespace plimsoll::job {

// Fills the fields that follow from others (precision switches, attention backend, virtual stages, ...).
[[nodiscard]] Status derive(Job& job);

// Refuses combinations that the framework would refuse or that describe no job. May add warnings.
[[nodiscard]] Status check(Job& job);

}  // namespace plimsoll::job
