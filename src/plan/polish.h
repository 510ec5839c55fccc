// SPDX-License-Identifier: Apache-2.0
// Levers that the space of a search does not hold (graphs of kernels, other messages between context ranks, ...),
// pulled on the rows that it found. Invariant: no lossless lever that is not pinned, pulled alone on the first row,
// makes it faster by more than kSameTime and still surely fits.
#pragma once

#include "plan/question.h"

namespace plimsoll::plan {

// What is asked with the row's settings is the row's job; rows of which that is not so are left as they are.
void polish(const Question& question, const SearchOptions& options, Plan& plan);

}  // namespace plimsoll::plan
