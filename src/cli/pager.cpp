// SPDX-License-Identifier: Apache-2.0
#include "cli/pager.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>

namespace plimsoll::cli {

namespace {

// Rows of the terminal behind a stream; 0 where it is none.
int rows_of(std::FILE* stream) {
  winsize size{};
  const int descriptor = fileno(stream);
  if (descriptor < 0 || isatty(descriptor) == 0 || ioctl(descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_row;
}

}  // namespace

Pager::Pager(Console& console) : console_(console) {
  const char* command = std::getenv("PAGER");
  if (command == nullptr || *command == '\0' || rows_of(console.out) == 0) return;
  kept_ = open_memstream(&text_, &size_);
  if (kept_ == nullptr) return;
  command_ = command;
  shown_ = console.out;
  console.out = kept_;
}

Pager::~Pager() { show(); }

void Pager::show() {
  if (kept_ == nullptr) return;
  std::fclose(kept_);
  kept_ = nullptr;
  console_.out = shown_;
  const auto lines = std::count(text_, text_ + size_, '\n');
  bool is_shown = false;
  if (lines >= rows_of(shown_)) {
    // less shows colours and leaves the text on the screen, unless the user has said what it is to do.
    setenv("LESS", "RX", 0);
    if (std::FILE* pipe = popen(command_.c_str(), "w"); pipe != nullptr) {
      std::fwrite(text_, 1, size_, pipe);
      const int status = pclose(pipe);
      constexpr int kNotFound = 127;
      is_shown = status != -1 && WEXITSTATUS(status) != kNotFound;
    }
  }
  if (!is_shown) std::fwrite(text_, 1, size_, shown_);
  std::free(text_);
  text_ = nullptr;
}

}  // namespace plimsoll::cli
