// SPDX-License-Identifier: Apache-2.0
// The table of torch.cuda.memory_summary(), full or abbreviated, pasted from a log: each line may have a prefix, and
// several tables may follow each other. The table rounds down to its units, so a figure carries its precision.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "snapshot/memory_stats.h"

namespace plimsoll::snapshot {

[[nodiscard]] bool looks_like_memory_summary(std::string_view text);

// All tables in the text, in order; at least one. `name` is the file's, for messages.
[[nodiscard]] Result<std::vector<MemoryStats>> read_memory_summaries(std::string_view name, std::string_view text);

}  // namespace plimsoll::snapshot
