// SPDX-License-Identifier: Apache-2.0
#include "base/ask.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

extern char** environ;

namespace plimsoll {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostOutput = 64 << 10;

// What arrives until the other end closes; nothing where the time ends first.
std::optional<std::string> read_until(int pipe, Clock::time_point end) {
  std::string text;
  std::array<char, 4096> piece;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    pollfd wait{pipe, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    const ssize_t got = read(pipe, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    if (text.size() < kMostOutput) text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::optional<std::string> ask(const std::vector<std::string>& words, std::chrono::milliseconds most) {
  int ends[2] = {-1, -1};
  if (words.empty() || pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  std::vector<std::string> owned = words;
  std::vector<char*> argv;
  for (std::string& word : owned) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::optional<std::string> text;
  if (error == 0) text = read_until(ends[0], Clock::now() + most);
  close(ends[0]);
  if (error != 0) return std::nullopt;
  if (!text) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return std::nullopt;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

}  // namespace plimsoll
