// SPDX-License-Identifier: Apache-2.0
// A job in JSON: everything that was understood of it, so that a reader can check what was read. `plimsoll read` says
// where each key came from.
#pragma once

#include "cli/json_writer.h"
#include "job/job.h"

namespace plimsoll::cli {

// The member "job".
void describe(JsonWriter& json, const job::Job& job);

}  // namespace plimsoll::cli
