// SPDX-License-Identifier: Apache-2.0
// What bounded a run, from what it wrote: metrics as JSON lines or console lines, logs of vLLM and SGLang, Prometheus
// text. Every claim carries the line it stands on, the value and the threshold of facts rl-and-inference.md 8, and the
// knob under the framework's own name. What the files do not show is not claimed: the verdict is then "unknown".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rl/choices.h"

namespace plimsoll::rl {

enum class Bottleneck : std::uint8_t {
  kStartUp,      // a server did not start
  kRollout,      // the trainer waits for samples
  kTrainer,      // generation is paused for the trainer
  kKvCache,      // requests are preempted, or wait while the cache is full
  kLanes,        // the cache has room, nothing waits, all lanes are busy
  kEnvironment,  // lanes wait for rewards or tools
  kWeightSync,   // weights take more than a tenth of a step
};
[[nodiscard]] std::string_view text_of(Bottleneck bottleneck);  // "rollout-bound", ...
[[nodiscard]] std::string_view id_of(Bottleneck bottleneck);    // "rollout", ..., for JSON

enum class Verdict : std::uint8_t {
  kBottleneck,  // findings[0]
  kBalanced,    // both sides were seen, and neither waits more than the threshold
  kUnknown,     // the files do not say
};

struct Evidence {
  std::string text;  // "the trainer waits 34 % of a step (threshold 10 %)"
  std::string file;
  std::int64_t line = 0;
  double value = 0;
  std::optional<double> threshold;
};

struct Advice {
  std::string knob;  // as the framework calls it; empty: not a knob but something to do
  std::string change;
  std::string why;
  std::string key;     // canonical, of key_table(); empty with the knob
  std::string amount;  // what it would change in the run, where that is known (amounts.h)
};

struct Finding {
  Bottleneck bottleneck = Bottleneck::kRollout;
  std::vector<Evidence> evidence;  // at least one
  std::vector<Advice> advice;      // the first one first
  std::vector<std::string> notes;  // where a common recommendation does not hold
};

struct Observation {
  Verdict verdict = Verdict::kUnknown;
  std::optional<Framework> framework;  // recognised by the names of its metrics, or given
  std::vector<Finding> findings;       // the bottleneck first, then what else was seen
  std::vector<Evidence> seen;          // what was measured, whether or not it bounds the run
  std::vector<std::string> missing;    // what would be needed to say more
  std::vector<std::string> warnings;   // lines that could not be read, and how many
  std::int64_t lines = 0;
  std::int64_t understood = 0;  // lines that held something
};

struct ObserveOptions {
  std::optional<Framework> framework;  // instead of the recognised one
  std::optional<double> lanes;         // request lanes of one server
};

struct InputText {
  std::string name;
  std::string_view text;
};

// What is in memory already.
[[nodiscard]] Observation observe(const std::vector<InputText>& files, const ObserveOptions& options = {});

// Files of any size in bounded memory; "-" is standard input.
[[nodiscard]] Result<Observation> observe_files(const std::vector<std::string>& paths,
                                                const ObserveOptions& options = {});

}  // namespace plimsoll::rl
