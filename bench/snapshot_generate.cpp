// SPDX-License-Identifier: Apache-2.0
// snapshot_generate FILE [EVENTS [SEED]]: writes a synthetic snapshot (snapshot_synthetic.h). 25,000,000 events are
// about 2 GB.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <string_view>

#include "snapshot_synthetic.h"

int main(int argc, char** argv) {
  plimsoll::bench::SyntheticOptions options;
  bool is_good = argc >= 2 && argc <= 4;
  std::uint64_t* const numbers[] = {&options.events, &options.seed};
  for (int i = 2; i < argc && is_good; ++i) {
    const std::string_view text = argv[i];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *numbers[i - 2]);
    is_good = error == std::errc{} && end == text.data() + text.size();
  }
  if (!is_good) {
    fmt::print(stderr, "usage: snapshot_generate FILE [EVENTS [SEED]]\n");
    return 2;
  }
  const auto written = plimsoll::bench::write_synthetic(argv[1], options);
  if (!written) {
    fmt::print(stderr, "snapshot_generate: {}\n", plimsoll::to_string(written.error()));
    return 3;
  }
  fmt::print("{} events, {} segments, {} bytes\n", written->events, written->segments, written->bytes);
  return 0;
}
