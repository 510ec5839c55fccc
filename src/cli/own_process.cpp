// SPDX-License-Identifier: Apache-2.0
#include "cli/own_process.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "cli/last_words.h"
#include "cli/program.h"

namespace plimsoll::cli {

namespace {

int live_there(const Console& console, const std::function<Result<ExitCode>()>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    return end_with(work(), console);
  } catch (...) {
    return last_words();
  }
}

// The status that the process ended with.
int wait_for(pid_t process) {
  constexpr useconds_t kLookEveryMicroseconds = 5000;
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(process, &status, WNOHANG);
    if (ended == process || (ended < 0 && errno != EINTR)) return status;
    if (interrupted()) {
      kill(process, interrupted_exit_code() - 128);
      answer_interrupt();
    }
    usleep(kLookEveryMicroseconds);
  }
}

}  // namespace

Result<ExitCode> in_own_process(const Console& console, const std::function<Result<ExitCode>()>& work) {
  PLIMSOLL_TRY_STATUS(console.flush());  // what is buffered would be printed twice
  const pid_t process = fork();
  if (process < 0)
    return tl::make_unexpected(
        Error{Code::kMissing, fmt::format("the machine refuses a process: {}", std::strerror(errno)), {}, {}});
  if (process == 0) {
    const int code = live_there(console, work);
    _exit(code);
  }
  const Uninterrupted until_it_has_ended;
  const int status = wait_for(process);
  if (WIFEXITED(status)) return static_cast<ExitCode>(WEXITSTATUS(status));
  return tl::make_unexpected(
      Error{Code::kMissing,
            fmt::format("signal {} ended the process that uses NVIDIA's driver: nothing is known", WTERMSIG(status)),
            {},
            "nvidia-smi and dmesg say how the device is"});
}

}  // namespace plimsoll::cli
