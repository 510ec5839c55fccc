// SPDX-License-Identifier: Apache-2.0
// The folder of a run as an argument of other verbs: it stands for its logs, its snapshot, its record and its job.
#pragma once

#include <optional>

#include "base/result.h"
#include "cli/arguments.h"
#include "cli/verb.h"

namespace plimsoll::cli {

// The arguments with every folder of a run replaced by what the verb reads of it; others stay as they are.
[[nodiscard]] Result<Arguments> with_run_folders(std::string_view verb, Arguments arguments);

// Where the operands of replay or diff are folders of many ranks, the answer about all of them; else nothing.
[[nodiscard]] Result<std::optional<ExitCode>> answer_for_ranks(std::string_view verb, const Arguments& arguments,
                                                               const Console& console);

}  // namespace plimsoll::cli
