// SPDX-License-Identifier: Apache-2.0
#include "answer/git_state.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

extern char** environ;

namespace plimsoll::answer {

namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> missing(std::string message, std::string hint = {}) {
  return tl::make_unexpected(Error{Code::kMissing, std::move(message), {}, std::move(hint)});
}

// What git reads from the environment of a hook would point it to another repository.
std::vector<char*> environment() {
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::strncmp(*entry, "GIT_", 4) != 0) kept.push_back(*entry);
  kept.push_back(nullptr);
  return kept;
}

// Runs without a shell: no word of a revision or a path can become a command. Nothing is read from it but its end.
Status run(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> variables = environment();
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return missing(fmt::format("{} cannot be started: {}", words[0], std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return missing(fmt::format("waiting for {}: {}", words[0], std::strerror(errno)));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return missing(fmt::format("{} {} failed", words[0], words[words[0] == "git" ? 3 : 1]));
}

}  // namespace

Result<GitState> GitState::unpack(const std::string& folder, const std::string& revision) {
  if (revision.empty() || revision.front() == '-')
    return missing(fmt::format("'{}' is neither a folder nor a revision of git", revision));
  const std::string here = folder.empty() ? "." : folder;
  std::error_code failure;
  std::string pattern = (fs::temp_directory_path(failure) / "plimsoll-base-XXXXXX").string();
  if (failure || mkdtemp(pattern.data()) == nullptr)
    return missing(fmt::format("no folder can be made in the temporary one: {}", std::strerror(errno)));
  GitState state(pattern, pattern + "/state");
  fs::create_directory(state.folder_, failure);
  const std::string archive = pattern + "/archive.tar";
  // From a folder below the root of a repository git archive gives that folder alone, which is what is compared.
  if (auto made = run({"git", "-C", here, "archive", "--format=tar", "-o", archive, revision}); !made)
    return missing(fmt::format("'{}' is neither a folder nor a revision that git can unpack here", revision),
                   "--against main, or --against ../other-checkout");
  if (auto unpacked = run({"tar", "-xf", archive, "-C", state.folder_}); !unpacked)
    return tl::make_unexpected(unpacked.error());
  return state;
}

GitState::GitState(GitState&& other) noexcept
    : root_(std::exchange(other.root_, {})), folder_(std::move(other.folder_)) {}

GitState& GitState::operator=(GitState&& other) noexcept {
  std::swap(root_, other.root_);
  std::swap(folder_, other.folder_);
  return *this;
}

GitState::~GitState() {
  if (root_.empty()) return;
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

}  // namespace plimsoll::answer
