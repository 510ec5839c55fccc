// SPDX-License-Identifier: Apache-2.0
// What the kernel and the batch system know about a run's end and its log does not: a line each, in their own words, so
// that `why` reads them as it reads any log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "live/command.h"
#include "live/rank_file.h"
#include "live/sample.h"

namespace plimsoll::live {

// Messages of the kernel since `begun` (seconds of the monotonic clock) that speak of memory or of the GPU's driver;
// none where the kernel's log may not be read.
[[nodiscard]] std::vector<std::string> kernel_messages(double begun, const std::string& device = "/dev/kmsg");

struct Circumstances {
  const Ending& ending;
  const Most& most;
  const std::vector<RankRun>& ranks;
  const std::vector<std::string>& kernel;
  bool has_log = true;  // else what the hook saw of errors stands for it
};
// Where the command was killed and the memory group says that the kernel did not do it; else "".
[[nodiscard]] std::string word_on_kill(const Ending& ending, const Most& most, const std::vector<std::string>& kernel);
// What the hook read after each step, as lines of a log: of the ranks that ran out, or of the fullest.
[[nodiscard]] std::string steps_text(const std::vector<RankRun>& ranks);
// "" where there is nothing to say.
[[nodiscard]] std::string evidence_text(const Circumstances& circumstances);

}  // namespace plimsoll::live
