// SPDX-License-Identifier: Apache-2.0
// Parameter counts of an unsplit model (facts: models.md). MTP layers are counted apart.
#pragma once

#include <cstdint>

#include "model/architecture.h"

namespace plimsoll::model {

struct Parameters {
  std::int64_t total = 0;   // without MTP; a tied embedding once
  std::int64_t active = 0;  // total less the routed experts that a token does not visit
  std::int64_t mtp = 0;     // unique weights of the MTP layers
};

[[nodiscard]] std::int64_t attention_parameters(const Architecture& model, const Attention& attention);
[[nodiscard]] std::int64_t layer_parameters(const Architecture& model, const Layer& layer);
[[nodiscard]] Parameters count_parameters(const Architecture& model);

}  // namespace plimsoll::model
