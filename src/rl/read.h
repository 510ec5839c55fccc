// SPDX-License-Identifier: Apache-2.0
// From the file and flags that a user has to one completed run.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "job/read.h"
#include "rl/run.h"

namespace plimsoll::rl {

using Settings = std::vector<std::pair<std::string, std::string>>;

// One TOML or JSON: framework and model at the top, keys in their sections or at the top; [trainer] holds keys of
// an ordinary training job. Without a file the overrides must say everything. Overrides win.
[[nodiscard]] Result<Run> read_run(const std::optional<job::InputFile>& file, const Settings& overrides);

// The same without complete(): keys are set, the split, the trainer's job and contradictions are still open.
[[nodiscard]] Result<Run> read_draft(const std::optional<job::InputFile>& file, const Settings& overrides);

// Lines "length count", or a length alone that counts once; empty lines and those that start with # do not count.
[[nodiscard]] Result<std::vector<std::pair<std::int64_t, std::int64_t>>> parse_histogram(std::string_view text);

}  // namespace plimsoll::rl
