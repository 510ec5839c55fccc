// SPDX-License-Identifier: Apache-2.0
// $PAGER: an answer that is longer than the terminal is handed to the program that the user reads with.
#pragma once

#include <string>

#include "cli/console.h"

namespace plimsoll::cli {

// Holds what a verb prints back until it is known how long it is. Does nothing where standard output is no terminal or
// PAGER is empty.
class Pager {
 public:
  explicit Pager(Console& console);
  Pager(const Pager&) = delete;
  Pager& operator=(const Pager&) = delete;
  ~Pager();

  // Shows what was printed: through the pager where it is longer than the terminal. The pager's own failure is no
  // failure of the answer, which is printed then as it is.
  void show();

 private:
  Console& console_;
  std::string command_;
  std::FILE* shown_ = nullptr;  // the terminal
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* kept_ = nullptr;  // what is written to instead
};

}  // namespace plimsoll::cli
