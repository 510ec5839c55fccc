// SPDX-License-Identifier: Apache-2.0
// Runs a verb in a process of its own, because it runs foreign code: a driver that aborts then ends that process, and
// the program still says what happened and has a defined exit code.
#pragma once

#include <functional>

#include "cli/verb.h"

namespace plimsoll::cli {

// What `work` answers. Its process prints its own errors; signals that end this one reach it. To be called before other
// threads are started.
[[nodiscard]] Result<ExitCode> in_own_process(const Console& console, const std::function<Result<ExitCode>()>& work);

}  // namespace plimsoll::cli
