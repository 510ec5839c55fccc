// SPDX-License-Identifier: Apache-2.0
#include "live/streams.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace plimsoll::live {

namespace {

constexpr std::size_t kChunk = 64 << 10;
constexpr std::size_t kLongestLine = 1 << 20;  // kept back for the copy

bool same_file(int a, int b) {
  struct stat first{};
  struct stat second{};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

struct Ends {
  int ours = -1;
  int theirs = -1;
};

// A terminal whose line discipline changes nothing of what is written: ours does that once already.
Ends open_terminal(int like) {
  Ends ends;
  ends.ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  std::array<char, 128> name{};
  if (ends.ours < 0 || grantpt(ends.ours) != 0 || unlockpt(ends.ours) != 0 ||
      ptsname_r(ends.ours, name.data(), name.size()) != 0) {
    if (ends.ours >= 0) close(ends.ours);
    return {};
  }
  ends.theirs = open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  termios settings{};
  if (tcgetattr(like, &settings) == 0) {
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    tcsetattr(ends.theirs, TCSANOW, &settings);
  }
  winsize size{};
  if (ioctl(like, TIOCGWINSZ, &size) == 0) ioctl(ends.theirs, TIOCSWINSZ, &size);
  return ends;
}

Ends open_channel(int like) {
  if (isatty(like) != 0) {
    const Ends ends = open_terminal(like);
    if (ends.theirs >= 0) return ends;
  }
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) return {};
  return {pipe[0], pipe[1]};
}

// All bytes, waiting where the reader is slow. False: nobody reads any more.
bool write_all(int to, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t done = write(to, bytes, count);
    if (done >= 0) {
      bytes += done;
      count -= static_cast<std::size_t>(done);
    } else if (errno == EAGAIN) {
      pollfd wait{to, POLLOUT, 0};
      poll(&wait, 1, 1000);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

Streams::Streams(const std::string& log) {
  if (log.empty()) return;
  log_ = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (log_ < 0) {
    trouble_ = log + ": " + std::strerror(errno);
    return;  // without a copy there is no reason to stand between
  }
  if (same_file(STDOUT_FILENO, STDERR_FILENO)) {
    add(STDOUT_FILENO, true);
  } else {
    add(STDOUT_FILENO, false);
    add(STDERR_FILENO, false);
  }
}

Streams::~Streams() {
  for (Channel& channel : channels_) shut(channel);
  if (log_ >= 0) close(log_);
}

void Streams::add(int to, bool both) {
  const Ends ends = open_channel(to);
  if (ends.theirs < 0) return;  // no descriptors left: the command gets our own stream
  channels_.push_back({ends.ours, ends.theirs, to, both, {}});
}

void Streams::enter_child() const {
  for (const Channel& channel : channels_) {
    dup2(channel.theirs, channel.to);
    if (channel.both) dup2(channel.theirs, STDERR_FILENO);
  }
}

void Streams::leave_to_child() {
  for (Channel& channel : channels_) {
    close(channel.theirs);
    channel.theirs = -1;
  }
}

void Streams::copy_window_size() const {
  for (const Channel& channel : channels_) {
    winsize size{};
    if (channel.ours >= 0 && isatty(channel.to) != 0 && ioctl(channel.to, TIOCGWINSZ, &size) == 0)
      ioctl(channel.ours, TIOCSWINSZ, &size);
  }
}

std::size_t Streams::polled(std::span<pollfd, kMost> ends) const {
  std::size_t count = 0;
  for (const Channel& channel : channels_)
    if (channel.ours >= 0) ends[count++] = {channel.ours, POLLIN, 0};
  return count;
}

void Streams::pass_on(int from) {
  for (Channel& channel : channels_) {
    if (channel.ours != from) continue;
    std::array<char, kChunk> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
    const ssize_t got = read(from, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) return;
    if (got <= 0) return shut(channel);  // a terminal whose other end is closed says EIO
    const auto count = static_cast<std::size_t>(got);
    try {
      keep(channel, bytes.data(), count);
    } catch (const std::bad_alloc&) {
      give_up_copy("no memory");
    }
    // A reader that has left (head) ends the command's writing as it would have without us.
    if (!write_all(channel.to, bytes.data(), count)) shut(channel);
    return;
  }
}

void Streams::keep(Channel& channel, const char* bytes, std::size_t count) {
  if (log_ < 0) return;
  std::size_t whole = count;
  while (whole > 0 && bytes[whole - 1] != '\n' && bytes[whole - 1] != '\r') --whole;
  if (whole == 0 && channel.rest.size() + count < kLongestLine) {
    channel.rest.append(bytes, count);
    return;
  }
  write_copy(channel.rest.data(), channel.rest.size());
  write_copy(bytes, whole);
  channel.rest.assign(bytes + whole, count - whole);
}

void Streams::write_copy(const char* bytes, std::size_t count) {
  if (log_ < 0 || count == 0 || write_all(log_, bytes, count)) return;
  give_up_copy(std::strerror(errno));
}

void Streams::give_up_copy(const char* why) {
  close(log_);
  log_ = -1;
  try {
    trouble_ = why;
  } catch (const std::bad_alloc&) {
    trouble_ = "no memory";  // short enough to need none
  }
}

void Streams::finish() {
  for (Channel& channel : channels_) {
    write_copy(channel.rest.data(), channel.rest.size());
    channel.rest.clear();
  }
}

void Streams::shut(Channel& channel) {
  if (channel.ours >= 0) close(channel.ours);
  if (channel.theirs >= 0) close(channel.theirs);
  channel.ours = channel.theirs = -1;
}

}  // namespace plimsoll::live
