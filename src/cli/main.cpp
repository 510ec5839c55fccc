// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/program.h"

namespace {
constexpr int kOurBug = 70;
}

int main(int argc, char** argv) {
  // We throw nothing; what arrives here is out of memory or a mistake of ours.
  try {
    const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
    return plimsoll::cli::run_program(words, plimsoll::cli::process_console());
  } catch (const std::exception& error) {
    std::fprintf(stderr,
                 "plimsoll: this is our bug, not yours: %s\n"
                 "please report it with the command and the input that led here\n",
                 error.what());
    return kOurBug;
  }
}
