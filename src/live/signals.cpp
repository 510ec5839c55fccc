// SPDX-License-Identifier: Apache-2.0
#include "live/signals.h"

#include <sys/signalfd.h>

#include <atomic>
#include <csignal>

namespace plimsoll::live {

namespace {

std::atomic<bool> g_blocked{false};
sigset_t g_before;

sigset_t taken() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD})
    sigaddset(&set, number);
  return set;
}

}  // namespace

void block_signals() {
  if (g_blocked.exchange(true)) return;
  const sigset_t set = taken();
  pthread_sigmask(SIG_BLOCK, &set, &g_before);
}

int open_signals() {
  const sigset_t set = taken();
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void restore_signals_in_child() {
  // Ours are handlers, which exec resets, but for these two that the program ignores for itself.
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  sigprocmask(SIG_SETMASK, &g_before, nullptr);
}

}  // namespace plimsoll::live
