// SPDX-License-Identifier: Apache-2.0
// The folder of a run as an argument of other verbs: it stands for its logs, its snapshot, its record and its job.
#pragma once

#include "base/result.h"
#include "cli/arguments.h"

namespace plimsoll::cli {

// The arguments with every folder of a run replaced by what the verb reads of it; others stay as they are.
[[nodiscard]] Result<Arguments> with_run_folders(std::string_view verb, Arguments arguments);

}  // namespace plimsoll::cli
