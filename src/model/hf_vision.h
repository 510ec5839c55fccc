// SPDX-License-Identifier: Apache-2.0
// vision_config of a config.json.
#pragma once

#include <memory>

#include "base/result.h"
#include "document/node.h"
#include "model/vision.h"

namespace plimsoll::model {

// The tower and projector of a multimodal file, or null for a kind that is not known: the caller says so.
[[nodiscard]] Result<std::shared_ptr<const Vision>> read_vision(const document::Node& root,
                                                                const Architecture& language);

}  // namespace plimsoll::model
