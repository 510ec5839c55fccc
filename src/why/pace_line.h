// SPDX-License-Identifier: Apache-2.0
// What one line of a log says about the speed of a run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "why/pace.h"

namespace plimsoll::why {

struct PaceLine {
  std::string_view format;
  std::optional<std::int64_t> step;
  double seconds = 0;
  double tokens = 0;
  double samples = 0;
  std::optional<double> elapsed;    // a bar: seconds since its start, from which steps are differenced
  std::optional<std::int64_t> of;   // a bar: its end
  std::optional<double> data = {};  // seconds of the step that were spent waiting for data
};

// nullopt where the line says nothing about the time of a training step.
[[nodiscard]] std::optional<PaceLine> parse_pace(std::string_view text);

struct TimerLine {
  std::string name;
  double least = 0;  // seconds
  double most = 0;
};
// "    forward-backward ......: (1104.06, 1200.31)" below Megatron's "(min, max) time across ranks (ms):", or one
// figure below "max time across ranks (ms):".
[[nodiscard]] std::optional<TimerLine> parse_timer(std::string_view text);
[[nodiscard]] bool begins_timers(std::string_view text);

// "mfu: 41.2%", "MFU 0.41".
[[nodiscard]] std::optional<double> parse_mfu(std::string_view text);

// What the line says against the speed; nullptr for most.
struct PaceReason {
  const char* id;
  const char* says;
  const char* fix;
};
[[nodiscard]] const PaceReason* reason_in(std::string_view text);

}  // namespace plimsoll::why
