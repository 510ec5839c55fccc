// SPDX-License-Identifier: Apache-2.0
#include <malloc.h>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "cli/last_words.h"
#include "cli/program.h"

namespace {

// Large buffers go back to the system when they are dropped. Left alone, glibc raises what it calls large with every
// buffer that grows, and how much a process holds then depends on the order in which its threads happen to work.
void give_large_buffers_back() {
#ifdef __GLIBC__
  constexpr int kLarge = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kLarge);
  mallopt(M_TRIM_THRESHOLD, 2 * kLarge);
  mallopt(M_TOP_PAD, 4 * kLarge);  // threads' heaps grow by this much at once, not page by page
#endif
}

// Everything is written and closed. What is left would be given back piece by piece, catalogues and the tapes of walks
// among it, a millisecond before the system takes it all. Under a leak detector it has to be.
int leave(int code) {
#ifdef NDEBUG
  std::fflush(nullptr);
  std::quick_exit(code);
#else
  return code;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(plimsoll::cli::end_badly);
  plimsoll::cli::watch_memory();
  give_large_buffers_back();
  plimsoll::install_signal_handlers();
  // We throw nothing; what arrives here is out of memory or a mistake of ours.
  try {
    const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
    return leave(plimsoll::cli::run_program(words, plimsoll::cli::process_console()));
  } catch (...) {
    return plimsoll::cli::last_words();
  }
}
