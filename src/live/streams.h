// SPDX-License-Identifier: Apache-2.0
// Standard output and error of a command, passed on byte for byte while a copy is kept. Where ours is a terminal, the
// command gets a terminal (so that it colours, buffers and draws bars as it would), else a pipe; where both of ours are
// the same, both of its are, which keeps their order. Once the command runs nothing here throws: without memory the
// copy ends, and the command goes on.
#pragma once

#include <poll.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plimsoll::live {

class Streams {
 public:
  // "" leaves the streams alone: the command gets ours.
  explicit Streams(const std::string& log);
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  void enter_child() const;  // between fork and exec
  void leave_to_child();     // in the parent: the command's ends are its own
  void copy_window_size() const;

  static constexpr std::size_t kMost = 2;  // standard output and error
  // Writes the open ends to the front of `ends` and answers how many there are.
  [[nodiscard]] std::size_t polled(std::span<pollfd, kMost> ends) const;
  // Reads what is there from this end and passes it on; at the end of the stream the end is closed.
  void pass_on(int from);
  // The rest of lines that were not ended.
  void finish();
  [[nodiscard]] std::string take_trouble() { return std::move(trouble_); }  // why the copy is not complete, or ""

 private:
  struct Channel {
    int ours = -1;    // read from
    int theirs = -1;  // written by the command
    int to = -1;      // 1 or 2
    bool both = false;
    std::string rest;  // of a line, not yet in the copy: lines of two streams must not mix
  };

  void add(int to, bool both);
  void keep(Channel& channel, const char* bytes, std::size_t count);
  void give_up_copy(const char* why);
  void write_copy(const char* bytes, std::size_t count);
  static void shut(Channel& channel);

  std::vector<Channel> channels_;
  int log_ = -1;
  std::string trouble_;
};

}  // namespace plimsoll::live
