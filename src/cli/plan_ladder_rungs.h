// SPDX-License-Identifier: Apache-2.0
// The rungs of the ladder of `plan --from` (facts out-of-memory.md 2): changes that leave what is learned alone, and
// those that do not.
// Invariant: a rung never changes the sequences of one optimizer step.
#pragma once

#include <vector>

#include "cli/fit_changes.h"

namespace plimsoll::cli {

// Whether the framework allows one is found out by trying.
[[nodiscard]] std::vector<Change> ladder_rungs(const job::Job& job);

// Sequence length, precision, optimizer, adapters.
[[nodiscard]] std::vector<Change> science_changes(const job::Job& job);

// How much of a launch a change touches: 1 a variable, 2 the batch, 3 a switch, 4 what moves to the host, 5 the split
// over GPUs.
[[nodiscard]] int reach(const Change& change);

}  // namespace plimsoll::cli
