// SPDX-License-Identifier: Apache-2.0
// What PyTorch's own counters say, from memory_stats() or a pasted memory_summary(): no history to replay, but peaks,
// fragmentation and how often memory ran out.
#pragma once

#include <string>
#include <vector>

#include "answer/replay.h"
#include "cli/console.h"

namespace plimsoll::cli {

[[nodiscard]] std::string stats_report(const std::vector<snapshot::MemoryStats>& tables, const Console& console);

}  // namespace plimsoll::cli
