// SPDX-License-Identifier: Apache-2.0
// Post-training runs of tools that are not known here. Such tools share most of their words (rollout_batch_size,
// num_generations, max_new_tokens, gpu_memory_utilization, ...) and name their parts alike (actor, rollout, reference,
// critic, reward), so a key says what it means by its own name and by the part it stands in.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "rl/frameworks/config.h"

namespace plimsoll::rl {

// Whether a text speaks of such a run: samples of prompts, how long answers may get, and a rate of learning.
[[nodiscard]] bool speaks_of_run(std::string_view text);

[[nodiscard]] Result<ConfigSettings> read_run_by_names(const std::string& path, std::string_view text,
                                                       const Settings& given);

}  // namespace plimsoll::rl
