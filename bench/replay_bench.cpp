// SPDX-License-Identifier: Apache-2.0
// Replaying a recorded history: under its own settings with every event compared, under others, and two settings at
// once on two cores. Items are events of the recording.
#include <benchmark/benchmark.h>

#include "replay/exact.h"
#include "replay/whatif.h"
#include "snapshot/snapshot.h"

namespace plimsoll::replay {
namespace {

const snapshot::Snapshot& recording() {
  static const snapshot::Snapshot kSnapshot =
      snapshot::read_snapshot_file(std::string(PLIMSOLL_SOURCE_DIR) +
                                   "/tests/data/snapshots/varlen-ckpt--default.pickle.gz")
          .value();
  return kSnapshot;
}

void count(benchmark::State& state, std::int64_t replays) {
  state.SetItemsProcessed(state.iterations() * replays * static_cast<std::int64_t>(recording().events.count()));
}

void exact(benchmark::State& state) {
  const History history = read_history(recording(), 0).value();
  for (auto _ : state) benchmark::DoNotOptimize(replay_exactly(history, {}, {}));
  count(state, 1);
}
BENCHMARK(exact);

void what_if(benchmark::State& state, const char* setting) {
  const History history = read_history(recording(), 0).value();
  const Conditions conditions = conditions_of(setting, {}).value();
  for (auto _ : state) benchmark::DoNotOptimize(run(history, conditions));
  count(state, 1);
}
BENCHMARK_CAPTURE(what_if, default_settings, "");
BENCHMARK_CAPTURE(what_if, expandable, "expandable_segments:True");
BENCHMARK_CAPTURE(what_if, split, "max_split_size_mb:128");

// Each setting is replayed twice, once per placement of segments.
void two_settings_at_once(benchmark::State& state) {
  const History history = read_history(recording(), 0).value();
  for (auto _ : state) benchmark::DoNotOptimize(replay_settings(history, {"", "expandable_segments:True"}, {}));
  count(state, 4);
}
BENCHMARK(two_settings_at_once)->UseRealTime();

}  // namespace
}  // namespace plimsoll::replay

BENCHMARK_MAIN();
