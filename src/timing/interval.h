// SPDX-License-Identifier: Apache-2.0
// How far a predicted step time may be off, from the error tables of `plimsoll score` (docs/accuracy.md).
#pragma once

#include <string>
#include <vector>

#include "job/job.h"

namespace plimsoll::timing {

enum class Host { kUsual, kMeasured };

// Half-width as a share of the predicted seconds. host_share: of the step that the GPU waits for its host.
[[nodiscard]] double relative_interval(const job::Job& job, double host_share, Host host = Host::kUsual);

// What of a job the prediction does not follow: "key: what is assumed instead".
[[nodiscard]] std::vector<std::string> unmodelled(const job::Job& job);

}  // namespace plimsoll::timing
