// SPDX-License-Identifier: Apache-2.0
// The program behind main(): finds the verb, parses its flags, runs it, turns errors into text and an
// exit code.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/console.h"
#include "cli/verb.h"

namespace plimsoll::cli {

// The verbs in the order of the help text.
[[nodiscard]] std::span<const Verb* const> verbs();

[[nodiscard]] std::string_view version();

// A digest of the sources that this program was compiled from (tools/digest).
[[nodiscard]] std::string_view sources();

// `words` are the command line without the program's name. Answers the exit code.
[[nodiscard]] int run_program(std::span<const std::string> words, Console console);

// Prints what went wrong, if anything did, and answers the exit code.
[[nodiscard]] int end_with(const Result<ExitCode>& result, const Console& console);

}  // namespace plimsoll::cli
