// SPDX-License-Identifier: Apache-2.0
// snapshot_read FILE [RUNS]: reads a snapshot ("-" is standard input) and prints, as JSON, the seconds of every run,
// what was found and the most memory the process ever had resident. Exit 3 with a message when it cannot be read.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "snapshot/snapshot.h"

namespace {

// VmHWM in bytes.
long peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtol(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: snapshot_read FILE [RUNS]\n");
    return 2;
  }
  const int runs = argc == 3 ? std::atoi(argv[2]) : 1;
  std::string seconds;
  std::size_t events = 0;
  std::size_t segments = 0;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto snapshot = plimsoll::snapshot::read_snapshot_file(argv[1]);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (!snapshot) {
      fmt::print(stderr, "snapshot_read: {}\npeak_resident {}\n", plimsoll::to_string(snapshot.error()),
                 peak_resident());
      return 3;
    }
    events = snapshot->events.count();
    segments = snapshot->segments.size();
    seconds += fmt::format("{}{:.6f}", i == 0 ? "" : ", ", took.count());
  }
  fmt::print("{{\"seconds\": [{}], \"events\": {}, \"segments\": {}, \"peak_resident\": {}}}\n", seconds, events,
             segments, peak_resident());
  return 0;
}
