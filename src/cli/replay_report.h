// SPDX-License-Identifier: Apache-2.0
// The answers of plimsoll replay as text and as JSON. Both are written from the same structure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/recording.h"
#include "replay/leaks.h"
#include "replay/pinned.h"

namespace plimsoll::cli {

struct ReplayAnswer {
  const Recording* recording = nullptr;
  std::string setting;  // what the figures are of
  replay::Run run;
  bool is_what_if = false;
  // The recorded limit is known to an interval only, and what this run needs lies inside it.
  bool depends_on_limit = false;
  std::vector<replay::WhatIf> what_ifs;  // of --set given more than once, --what-if or --tune; ranked
  std::optional<replay::Tuned> tuned;
  replay::Pinned pinned;  // when memory ran out, or when most was reserved
  std::int64_t largest_request = 0;
  std::optional<replay::PeakReport> peak;
  std::optional<replay::LeakReport> leaks;
  std::vector<std::string> warnings;
};

[[nodiscard]] std::string replay_report(const ReplayAnswer& answer, const Console& console);
[[nodiscard]] std::string replay_json(const ReplayAnswer& answer);

// "export PYTORCH_CUDA_ALLOC_CONF=..." as the version reads it.
[[nodiscard]] std::string environment_line(const std::string& setting, allocator::Version torch);

}  // namespace plimsoll::cli
