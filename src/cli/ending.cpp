// SPDX-License-Identifier: Apache-2.0
// How the program ends, whatever it did: apart from the list of verbs, which a library does not need.
#include <poll.h>
#include <csignal>
#include <cstdio>

#include "base/interrupt.h"
#include "cli/program.h"

namespace plimsoll::cli {

namespace {

// A reader that has seen enough (head) is no failure to speak of.
bool reader_left(const Console& console) {
  pollfd out{fileno(console.out), POLLOUT, 0};
  return poll(&out, 1, 0) > 0 && (out.revents & POLLERR) != 0;
}

constexpr int kPipeClosed = 128 + SIGPIPE;  // what a shell reports of a program that a closed pipe ended

}  // namespace

int end_with(const Result<ExitCode>& result, const Console& console) {
  const bool is_given_up = interrupted() && !result;
  if (!result) console.error(is_given_up ? given_up() : result.error());
  if (const Status flushed = console.flush(); !flushed) {
    if (reader_left(console)) return kPipeClosed;
    console.error(flushed.error());
    return static_cast<int>(flushed.error().code);
  }
  if (is_given_up) return interrupted_exit_code();
  if (interrupted()) {
    console.error({Code::kMissing, "interrupted: what is shown is what was known by then", {}, {}});
    return interrupted_exit_code();
  }
  return result ? static_cast<int>(*result) : static_cast<int>(result.error().code);
}

}  // namespace plimsoll::cli
