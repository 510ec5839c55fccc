// SPDX-License-Identifier: Apache-2.0
// A history as a Chrome trace, which Perfetto opens: requested and reserved bytes as counters, the largest objects as
// slices named by their stacks, annotations and out-of-memory events.
#pragma once

#include <string>

#include "base/result.h"
#include "base/write.h"
#include "replay/history.h"

namespace plimsoll::answer {

[[nodiscard]] Status write_chrome_trace(const std::string& path, const replay::History& history, Existing existing);

}  // namespace plimsoll::answer
