// SPDX-License-Identifier: Apache-2.0
#include "cli/last_words.h"

#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <exception>
#include <new>

#include "base/result.h"

namespace plimsoll::cli {

namespace {

constexpr int kOurBug = 70;
constexpr int kNoMemory = static_cast<int>(Code::kMissing);

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

std::atomic<bool> g_ran_out{false};

[[noreturn]] void note_and_throw() {
  g_ran_out = true;
  throw std::bad_alloc();
}

}  // namespace

void watch_memory() { std::set_new_handler(note_and_throw); }

int last_words() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return say_no_memory();
  } catch (const std::exception& error) {
    return say_our_bug(error.what());
  } catch (...) {
    return say_our_bug("an unknown exception");
  }
  // Without memory not even the exception may have been made.
  return g_ran_out ? say_no_memory() : say_our_bug("it ended without a reason");
}

void end_badly() { _exit(last_words()); }

}  // namespace plimsoll::cli
