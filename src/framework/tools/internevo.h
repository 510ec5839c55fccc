// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

// InternEvo's configuration: tables data (micro_bsz), model and parallel (zero1, tensor, pipeline, weight).
[[nodiscard]] bool is_internevo(const document::Node& root);
[[nodiscard]] Result<Draft> read_internevo(const document::Node& root, const std::string& path);

}  // namespace plimsoll::job
