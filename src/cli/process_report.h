// SPDX-License-Identifier: Apache-2.0
// A live process and a launch script, checked, for people.
#pragma once

#include <string>

#include "answer/process.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string process_report(const answer::LiveProcess& process, const Console& console);
[[nodiscard]] std::string script_report(const answer::CheckedScript& script, const Console& console);

}  // namespace plimsoll::cli
