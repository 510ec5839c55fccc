// SPDX-License-Identifier: Apache-2.0
// What is said when the program cannot go on, and the exit code that goes with it.
#pragma once

namespace plimsoll::cli {

// Memory ran out, or something was thrown that nothing expects. To be called in a catch.
[[nodiscard]] int last_words();

// The same where nothing can be caught (a destructor, another thread): for std::set_terminate.
[[noreturn]] void end_badly();
// Remembers that memory ran out, for the words of an end that no exception explains.
void watch_memory();

}  // namespace plimsoll::cli
