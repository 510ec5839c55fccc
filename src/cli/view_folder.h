// SPDX-License-Identifier: Apache-2.0
// The files that a page shows of a folder, where thousands of ranks may lie in it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace plimsoll::cli {

// Of a run: its job, its logs, its snapshots. Of many snapshots, the fullest of each group of ranks that hold the same.
// Of logs, those that the diagnosis rests on.
[[nodiscard]] Result<std::vector<std::string>> files_to_view(const std::string& folder);

}  // namespace plimsoll::cli
