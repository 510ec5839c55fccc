// SPDX-License-Identifier: Apache-2.0
// Where threads run. A kernel may let a new thread wait behind the one that made it for milliseconds while another core
// is idle, until it balances its cores: as long as half of a short answer.
#pragma once

#include <thread>

namespace plimsoll {

// Sends a thread that was just started to a core other than this one; from there it may go where it likes. Does nothing
// where there is one core only or the system does not say.
void send_to_another_core(std::thread::native_handle_type thread);

}  // namespace plimsoll
