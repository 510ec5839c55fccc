// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace plimsoll {

std::string to_string(const Error& error) {
  std::string text;
  for (auto it = error.context.rbegin(); it != error.context.rend(); ++it) text += *it + ": ";
  return text + error.message;
}

void check_failed(const char* file, int line, const char* what) {
  std::fprintf(stderr,
               "plimsoll: this is our bug, not yours: %s does not hold at %s:%d\n"
               "please report it with the command and the input that led here\n",
               what, file, line);
  std::_Exit(70);
}

}  // namespace plimsoll
