// SPDX-License-Identifier: Apache-2.0
#include "live/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <span>

#include "live/signals.h"
#include "live/streams.h"

extern char** environ;

namespace plimsoll::live {

namespace {

using Clock = std::chrono::steady_clock;

// After the command has ended, output of what it left behind is waited for this long.
constexpr int kDrainMilliseconds = 200;

std::vector<std::string> environment_of(const Launch& launch) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : launch.environment)
      replaced = replaced || (text.starts_with(name) && text.size() > name.size() && text[name.size()] == '=');
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : launch.environment) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

struct Child {
  pid_t pid = -1;
  int error = 0;
};

// Between fork and exec only what is safe in a handler is called.
Child start(const Launch& launch, const Streams& streams) {
  std::vector<std::string> words = launch.words;
  std::vector<std::string> environment = environment_of(launch);
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(environment);
  std::array<int, 2> report{};
  if (pipe2(report.data(), O_CLOEXEC) != 0) return {-1, errno};
  const pid_t pid = fork();
  if (pid == 0) {
    streams.enter_child();
    restore_signals_in_child();
    execvpe(argv[0], argv.data(), envp.data());
    const int error = errno;
    if (write(report[1], &error, sizeof error) < 0) _exit(126);
    _exit(127);
  }
  const int fork_error = errno;
  close(report[1]);
  Child child{pid, pid < 0 ? fork_error : 0};
  if (pid > 0) {
    int error = 0;
    ssize_t got = 0;
    do got = read(report[0], &error, sizeof error);
    while (got < 0 && errno == EINTR);
    if (got == sizeof error) {
      child.error = error;
      waitpid(pid, nullptr, 0);
    }
  }
  close(report[0]);
  return child;
}

// Reaps what has ended; true when the command itself is among it.
bool reap(pid_t command, int& status) {
  bool ended = false;
  int one = 0;
  for (pid_t pid = waitpid(-1, &one, WNOHANG); pid > 0; pid = waitpid(-1, &one, WNOHANG)) {
    if (pid != command) continue;
    ended = true;
    status = one;
  }
  return ended;
}

// Signals of the terminal reach the command by themselves: it is in the same group.
void forward(const signalfd_siginfo& info, pid_t command, Streams& streams) {
  const int number = static_cast<int>(info.ssi_signo);
  if (number == SIGCHLD) return;
  if (number == SIGWINCH) streams.copy_window_size();
  if (info.ssi_code == SI_KERNEL) return;
  kill(command, number);
}

// Until the command has ended and its output is passed on; false where the machine does not let us wait so.
bool attend(pid_t command, Streams& streams, int signals, int& status) {
  bool ended = false;
  std::array<pollfd, Streams::kMost + 1> polled{};
  while (true) {
    const std::size_t outputs = streams.polled(std::span(polled).first<Streams::kMost>());
    if (ended && outputs == 0) return true;
    polled[outputs] = {signals, POLLIN, 0};
    const int ready = poll(polled.data(), ended ? outputs : outputs + 1, ended ? kDrainMilliseconds : -1);
    if (ready == 0) return true;  // ended, and what it left behind is silent
    if (ready < 0 && errno != EINTR) return ended;
    if (ready < 0) continue;
    for (std::size_t i = 0; i < outputs; ++i)
      if (polled[i].revents != 0) streams.pass_on(polled[i].fd);
    if (ended || polled[outputs].revents == 0) continue;
    signalfd_siginfo info{};
    if (read(signals, &info, sizeof info) == sizeof info) forward(info, command, streams);
    ended = reap(command, status);
  }
}

}  // namespace

Ending run_command(const Launch& launch) {
  Ending ending;
  block_signals();
  // Processes whose parent ended stay below us, so that the sampler sees them.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Streams streams(launch.log);
  const auto begun = Clock::now();
  const Child child = start(launch, streams);
  streams.leave_to_child();
  ending.error = child.error;
  if (child.pid < 0 || child.error != 0) return ending;
  ending.started = true;
  const int signals = open_signals();
  if (launch.started) launch.started(child.pid);
  int status = 0;
  if (signals < 0 || !attend(child.pid, streams, signals, status)) waitpid(child.pid, &status, 0);
  ending.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  streams.finish();
  ending.log_trouble = streams.take_trouble();
  if (signals >= 0) close(signals);
  if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
  if (WIFEXITED(status)) ending.exit_code = WEXITSTATUS(status);
  return ending;
}

void end_like(int signal) {
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);  // the command has left its own
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  kill(getpid(), signal);
}

}  // namespace plimsoll::live
