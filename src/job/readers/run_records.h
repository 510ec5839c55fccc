// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "document/node.h"
#include "job/draft.h"

namespace plimsoll::job {

// {key: {desc: ..., value: ...}} beside _wandb or wandb_version.
[[nodiscard]] bool is_wandb_config(const document::Node& root);
// The values alone.
[[nodiscard]] document::Node unwrap_wandb(const document::Node& root);
[[nodiscard]] bool is_trainer_state(const document::Node& root);
// "------ arguments ------" and lines "name ...... value".
[[nodiscard]] bool is_megatron_log(std::string_view text);

}  // namespace plimsoll::job
