// SPDX-License-Identifier: Apache-2.0
// Modules of a config.json that nobody has modelled: how many parameters they hold, so that their weights are not left
// out with what they compute.
#pragma once

#include <cstdint>

#include "document/node.h"

namespace plimsoll::model {

// Of a vision_config or audio_config whose features enter a text model of this width; 0: it does not say.
[[nodiscard]] std::int64_t unmodelled_parameters(const document::Node& config, std::int64_t text_width);

}  // namespace plimsoll::model
