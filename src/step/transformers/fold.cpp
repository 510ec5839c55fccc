// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/pass.h"

namespace plimsoll::step::transformers {

const LayerProfiles::Measured& LayerProfiles::of(std::int64_t index, bool needs_grad, bool accumulates,
                                                 bool grad_is_view, bool training) {
  const auto kind = model_.architecture().layers[static_cast<std::size_t>(index)];
  return measured_[std::make_tuple(kind, needs_grad, accumulates, grad_is_view, training)];
}

}  // namespace plimsoll::step::transformers
