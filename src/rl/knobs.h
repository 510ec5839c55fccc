// SPDX-License-Identifier: Apache-2.0
// Every knob of a run turned alone, with what that changes: bytes of the trainer, bytes and requests of a server,
// seconds of a step, tokens/s and age of the samples. Some change nothing, and the answer says so.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "rl/evaluate.h"
#include "rl/read.h"

namespace plimsoll::rl {

struct Knob {
  std::string group;  // "trainer memory", "inference memory", "rollout", "training", "other"
  Settings settings;  // keys and values; usually one
  std::string says;   // what the knob is for
};

struct Priced {
  Knob knob;
  std::vector<std::string> was;    // the present values
  std::string refused;             // why it cannot be turned so; the rest is then empty
  std::string problem;             // why the run would not run with it
  std::int64_t trainer_bytes = 0;  // change of the trainer's peak
  std::int64_t step_bytes = 0;     // change of the peak of the training step alone
  std::int64_t kv_bytes = 0;       // change of a GPU's cache
  double requests = 0;             // change of requests of max_model_len that a server holds
  double train_seconds = 0;        // change of a batch's training
  double period = 0;               // change, seconds
  double tokens_per_second = 0;    // change, share
  double staleness = 0;            // change of the mean, trainer steps
  bool fits = false;
};

// The knobs that mean something for this run: each to another value, both ways where there are two.
[[nodiscard]] std::vector<Knob> knobs_of(const Run& run, const Evaluation& base);

// `draft` is the run before complete(), `run` after it; `base` is its evaluation, with the same options.
[[nodiscard]] std::vector<Priced> price_knobs(const Run& draft, const Run& run, const Evaluation& base,
                                              const std::vector<Knob>& knobs, const EvaluationOptions& options,
                                              const std::function<void(const std::string&)>& progress = {});

}  // namespace plimsoll::rl
