// SPDX-License-Identifier: Apache-2.0
#include "live/nvml.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "live/nvml_library.h"

namespace plimsoll::live {

namespace {

using Clock = std::chrono::steady_clock;

// A driver answers in milliseconds; its first start, without a persistence daemon, takes seconds.
constexpr std::chrono::seconds kPatienceAtStart{20};
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::milliseconds kLookAtSignals{50};
constexpr std::uint32_t kMostBytes = 1U << 20;
// A message: its kind, its length, its bytes.
enum Kind : char { kLoaded = 'l', kMissing = 'm', kDevices = 'd' };

bool write_all(int to, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = write(to, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

bool send(int to, Kind kind, std::string_view text) {
  std::string message(1, kind);
  const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), kMostBytes));
  std::array<char, sizeof size> bytes{};
  std::memcpy(bytes.data(), &size, sizeof size);
  message.append(bytes.data(), bytes.size()).append(text.substr(0, size));
  return write_all(to, message.data(), message.size());
}

// The life of the process: it ends when nobody can ask it any more.
void serve(const std::string& library, int asked, int answers) {
  const auto nvml = NvmlLibrary::load(library);
  if (!nvml) {
    send(answers, kMissing, nvml.error().message);
    return;
  }
  if (!send(answers, kLoaded, {})) return;
  char question = 0;
  while (true) {
    const ssize_t got = read(asked, &question, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1 || !send(answers, kDevices, pack((*nvml)->read()))) return;
  }
}

// Nothing of the terminal, of the run or of pipes that somebody waits for is held by a driver that hangs.
void enter_process() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(number, SIG_IGN);
  const int nothing = open("/dev/null", O_RDWR);
  if (nothing < 0) return;
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, stream);
  if (nothing > STDERR_FILENO) close(nothing);
}

tl::unexpected<Error> missing(std::string message) {
  return tl::make_unexpected(Error{Code::kMissing, std::move(message), {}, {}});
}

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  bool open() { return pipe2(ends.data(), O_CLOEXEC) == 0; }
  int take(int end) { return std::exchange(ends[static_cast<std::size_t>(end)], -1); }
  ~Pipe() {
    for (const int end : ends)
      if (end >= 0) close(end);
  }
};

}  // namespace

Result<std::unique_ptr<Nvml>> Nvml::load(const std::string& library) {
  std::unique_ptr<Nvml> nvml(new Nvml);
  Pipe asks;
  Pipe answers;
  if (!asks.open() || !answers.open()) return missing(fmt::format("no pipe to a process: {}", std::strerror(errno)));
  nvml->process_ = fork();
  if (nvml->process_ < 0) return missing(fmt::format("no process for NVIDIA's library: {}", std::strerror(errno)));
  if (nvml->process_ == 0) {
    close(asks.take(1));
    close(answers.take(0));
    enter_process();
    try {
      serve(library, asks.ends[0], answers.ends[1]);
    } catch (const std::bad_alloc&) {
      _exit(static_cast<int>(Code::kMissing));
    }
    _exit(0);
  }
  nvml->ask_ = asks.take(1);
  nvml->answer_ = answers.take(0);
  close(asks.take(0));
  close(answers.take(1));
  const std::string first = nvml->receive(kPatienceAtStart);
  if (first.empty()) return missing(nvml->problem_);
  if (first.front() != kLoaded) return missing(first.substr(1));
  return nvml;
}

Nvml::~Nvml() { give_up({}); }

void Nvml::give_up(std::string why, Process process_is) {
  if (!why.empty()) problem_ = std::move(why);
  for (int* end : {&ask_, &answer_})
    if (*end >= 0) close(std::exchange(*end, -1));
  if (process_ <= 0) return;
  // What hangs in the driver cannot be waited for; a command that is run reaps whatever is left (live/command.cpp).
  const pid_t process = std::exchange(process_, -1);
  int status = 0;
  // Its pipe is closed a little before it can be reaped: on a busy machine, many milliseconds.
  const int looks = process_is == Process::kEnded ? 500 : 0;
  pid_t reaped = waitpid(process, &status, WNOHANG);
  for (int i = 0; i < looks && reaped == 0; ++i) {
    usleep(1000);
    reaped = waitpid(process, &status, WNOHANG);
  }
  if (reaped != process) {
    kill(process, SIGKILL);
    for (int i = 0; i < 20 && waitpid(process, &status, WNOHANG) == 0; ++i) usleep(1000);
  } else if (!problem_.empty() && WIFSIGNALED(status)) {
    problem_ += fmt::format(" (signal {})", WTERMSIG(status));
  }
}

std::string Nvml::receive(std::chrono::seconds patience) {
  std::string message;
  std::size_t wanted = 1 + sizeof(std::uint32_t);
  const auto until = Clock::now() + patience;
  while (message.size() < wanted) {
    pollfd waited{answer_, POLLIN, 0};
    const int ready = poll(&waited, 1, static_cast<int>(kLookAtSignals.count()));
    if (ready < 0 && errno != EINTR) {
      give_up(fmt::format("NVIDIA's library cannot be asked: {}", std::strerror(errno)));
      return {};
    }
    if (interrupted()) {
      give_up("interrupted while NVIDIA's library was asked");
      return {};
    }
    if (ready <= 0) {
      if (Clock::now() < until) continue;
      give_up(fmt::format("NVIDIA's library does not answer within {} s", patience.count()));
      return {};
    }
    std::array<char, 4096> bytes{};
    const ssize_t got = ::read(answer_, bytes.data(), std::min(bytes.size(), wanted - message.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      // Its last message is whole or it has ended in the middle of its work.
      give_up("NVIDIA's library ended the process that asked it", Process::kEnded);
      return {};
    }
    message.append(bytes.data(), static_cast<std::size_t>(got));
    if (message.size() == 1 + sizeof(std::uint32_t)) {
      std::uint32_t size = 0;
      std::memcpy(&size, message.data() + 1, sizeof size);
      wanted += std::min(size, kMostBytes);
    }
  }
  return message.substr(0, 1) + message.substr(1 + sizeof(std::uint32_t));
}

std::vector<DeviceUse> Nvml::read() {
  if (process_ <= 0) return {};
  const char question = '?';
  if (!write_all(ask_, &question, 1)) {
    give_up("NVIDIA's library ended the process that asked it", Process::kEnded);
    return {};
  }
  const std::string answer = receive(kPatience);
  if (answer.empty() || answer.front() != kDevices) return {};
  auto devices = unpack(std::string_view(answer).substr(1));
  if (!devices) {
    give_up(devices.error().message);
    return {};
  }
  return *std::move(devices);
}

}  // namespace plimsoll::live
