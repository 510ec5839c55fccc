// SPDX-License-Identifier: Apache-2.0
// A post-training run: sized and balanced before it starts, planned, its knobs priced, and observed when it ran.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answer/progress.h"
#include "base/result.h"
#include "lever/world.h"
#include "rl/evaluate.h"
#include "rl/frameworks/config.h"
#include "rl/keys.h"
#include "rl/knobs.h"
#include "rl/observe/observe.h"
#include "rl/plan.h"
#include "rl/read.h"

namespace plimsoll::answer {

struct RlInput {
  std::string path;       // our own format, a framework's configuration or script; "" where settings say all
  rl::Settings settings;  // overrule the file
  std::string framework;  // whose defaults and rules apply, whatever the file says; "" for the file's
};

// A run as it was asked for: what is not given is still open.
struct RlDraft {
  rl::Run run;
  std::string path;                   // of our own format; "" for others
  std::vector<std::string> warnings;  // what was assumed or not read
};
[[nodiscard]] Result<RlDraft> read_rl(const RlInput& input);

struct RlAnswer {
  rl::Run run;
  rl::Evaluation evaluation;
};
struct RlOptions {
  std::optional<std::int64_t> steps;  // of the simulation
  bool timeline = false;
};
[[nodiscard]] Result<RlAnswer> evaluate_rl(const RlDraft& draft, const lever::World& world, const RlOptions& options);
[[nodiscard]] std::string to_json(const RlAnswer& answer);

[[nodiscard]] std::vector<rl::Priced> price_rl_knobs(const RlDraft& draft, const RlAnswer& answer,
                                                     const lever::World& world, const RlOptions& options,
                                                     const Progress& progress);
[[nodiscard]] std::string to_json(const std::vector<rl::Priced>& knobs);

[[nodiscard]] Result<rl::Plan> plan_rl(const RlDraft& draft, const lever::World& world, std::size_t keep,
                                       const Progress& progress);
[[nodiscard]] std::string to_json(const rl::Plan& plan);
// Why the keys of a proposal have their values, for the files that are written.
[[nodiscard]] std::vector<rl::KeyReason> reasons_of(const rl::Proposal& proposal);

struct ObserveQuestion {
  std::vector<std::string> files;  // that the run wrote
  rl::Settings settings;           // what is known of the run: framework, lanes
  std::optional<RlInput> run;      // the run itself, so that advice has amounts
};
[[nodiscard]] Result<rl::Observation> observe_rl(const ObserveQuestion& question, const lever::World& world);
[[nodiscard]] std::string to_json(const rl::Observation& observation);

// Every key of a run with its section, type and meaning.
[[nodiscard]] std::string rl_keys_json();

// "fsdp2, dp 8", "megatron-lm, tp 4, pp 2, dp 1".
[[nodiscard]] std::string describe_trainer(const rl::Run& run);

}  // namespace plimsoll::answer
