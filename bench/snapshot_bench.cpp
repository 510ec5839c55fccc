// SPDX-License-Identifier: Apache-2.0
// Reads snapshots: a recording, a synthetic history of 500,000 events, and whatever files PLIMSOLL_SNAPSHOTS names,
// separated by colons.
//   cmake --preset release && cmake --build --preset release --target snapshot_bench &&
//   build/release/bench/snapshot_bench
// Bar: 25 times as fast as pickle.load of Python on the same file in the same run; bench/snapshot_ratio measures that.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "snapshot/snapshot.h"
#include "snapshot_synthetic.h"

namespace plimsoll {
namespace {

void read_file(benchmark::State& state, const std::string& path) {
  std::size_t events = 0;
  for (auto _ : state) {
    const auto snapshot = snapshot::read_snapshot_file(path);
    if (!snapshot) return state.SkipWithError(to_string(snapshot.error()).c_str());
    events += snapshot->events.count();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(events));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * std::filesystem::file_size(path)));
}

void register_file(const std::string& path) {
  const std::string name = "read/" + std::filesystem::path(path).filename().string();
  benchmark::RegisterBenchmark(name.c_str(), [path](benchmark::State& state) {
    read_file(state, path);
  })->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const char* const named = std::getenv("PLIMSOLL_SNAPSHOTS");
  if (named != nullptr) {
    const std::string list = named;
    for (std::size_t first = 0; first < list.size();) {
      const std::size_t end = std::min(list.find(':', first), list.size());
      plimsoll::register_file(list.substr(first, end - first));
      first = end + 1;
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  }
  const std::string synthetic =
      (std::filesystem::temp_directory_path() / ("synthetic-" + std::to_string(getpid()) + ".pickle")).string();
  if (!plimsoll::bench::write_synthetic(synthetic, {})) return 3;
  plimsoll::register_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/snapshots/unit-default.pickle.gz");
  plimsoll::register_file(synthetic);
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove(synthetic);
  return 0;
}
