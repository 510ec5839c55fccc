// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "base/result.h"
#include "cli/program.h"

namespace {

constexpr int kOurBug = 70;
constexpr int kNoMemory = static_cast<int>(plimsoll::Code::kMissing);

int say_no_memory() {
  std::fputs(
      "plimsoll: there is not enough memory for this; nothing was answered\n"
      "hint: ulimit -v, a container's limit or the machine's memory is in the way\n",
      stderr);
  return kNoMemory;
}

int say_our_bug(const char* what) {
  std::fprintf(stderr,
               "plimsoll: this is our bug, not yours: %s\n"
               "please report it with the command and the input that led here\n",
               what);
  return kOurBug;
}

// Memory that runs out where nothing can be thrown (a destructor, another thread) ends here.
[[noreturn]] void end_badly() {
  int code = kOurBug;
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    code = say_no_memory();
  } catch (const std::exception& error) {
    code = say_our_bug(error.what());
  } catch (...) {
    code = say_our_bug("an unknown exception");
  }
  _exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_badly);
  plimsoll::install_signal_handlers();
  // We throw nothing; what arrives here is out of memory or a mistake of ours.
  try {
    const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
    return plimsoll::cli::run_program(words, plimsoll::cli::process_console());
  } catch (const std::bad_alloc&) {
    return say_no_memory();
  } catch (const std::exception& error) {
    return say_our_bug(error.what());
  }
}
