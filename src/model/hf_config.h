// SPDX-License-Identifier: Apache-2.0
// Hugging Face config.json -> Architecture, for the families of facts models.md. Key names and the
// defaults for absent keys differ per model_type; each family is a function of hf_<group>.cpp.
#pragma once

#include "document/node.h"
#include "model/architecture.h"

namespace plimsoll::model {

// True for a table that looks like a config.json: it has model_type or architectures.
[[nodiscard]] bool looks_like_hf_config(const document::Node& root);

[[nodiscard]] Result<Architecture> read_hf_config(const document::Node& root);

}  // namespace plimsoll::model
