// SPDX-License-Identifier: Apache-2.0
// Hybrid models mix linear attention, which has neither heads of queries nor positions, with ordinary
// attention, or run one block of it before their mixers. What a model has once (rotary tables) follows the ordinary
// kind, wherever in the stack it is.
#pragma once

#include "model/architecture.h"
#include "model/parts.h"

namespace plimsoll::model {

// The attention of the first kind of layer that has scores; of the first kind where all are.
[[nodiscard]] inline const Attention& softmax_attention(const Architecture& model) {
  if (model.shared_block != nullptr) return model.shared_block->attention;
  for (const Layer& kind : model.kinds)
    if (kind.attention.kind == AttentionKind::kGqa || kind.attention.kind == AttentionKind::kMla) return kind.attention;
  return model.kinds.front().attention;
}

}  // namespace plimsoll::model
