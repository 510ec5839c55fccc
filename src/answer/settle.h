// SPDX-License-Identifier: Apache-2.0
// What the job decides that a log cannot: whether a full device is full of what lasts, or of what a step makes.
#pragma once

#include "answer/known_job.h"
#include "why/diagnosis.h"

namespace plimsoll::answer {

// Where the log leaves capacity and activations open, the job's own sum of what lasts decides between the two.
void settle_by_job(const KnownJob& known, why::Diagnosis& diagnosis);

}  // namespace plimsoll::answer
