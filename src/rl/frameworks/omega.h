// SPDX-License-Identifier: Apache-2.0
// YAML as OmegaConf and Hydra read it: `defaults:` names files that this one is laid over, "${a.b}" is the value there.
#pragma once

#include <string>
#include <string_view>

#include "document/node.h"

namespace plimsoll::rl {

// `path` is the file's own, beside which others are looked for. A value that cannot be worked out stays as it is
// written.
[[nodiscard]] Result<document::Node> parse_omega(std::string_view text, const std::string& path);

}  // namespace plimsoll::rl
