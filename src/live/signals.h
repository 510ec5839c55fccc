// SPDX-License-Identifier: Apache-2.0
// The signals of a run: they wait in a descriptor instead of ending the program, and go on to the command.
#pragma once

namespace plimsoll::live {

// Once, before any thread is started (a thread without the block would take them). The command gets the mask from
// before.
void block_signals();

// A signalfd over the blocked signals, -1 where the machine refuses it.
[[nodiscard]] int open_signals();

// Between fork and exec: mask and dispositions as they were when the program was started.
void restore_signals_in_child();

}  // namespace plimsoll::live
