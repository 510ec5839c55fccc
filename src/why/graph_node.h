// SPDX-License-Identifier: Apache-2.0
// A runtime that runs a graph has no frames at a failure, but names the node: its path says where in the step it lies.
#pragma once

#include <optional>
#include <string_view>

#include "why/phase.h"

namespace plimsoll::why {

// "[[Node: training/Adam/mul_23 = Mul[...]]]", "[[{{node gradients/dense/MatMul_grad}}]]": nullopt where none is named.
[[nodiscard]] std::optional<Phase> phase_of_graph_node(std::string_view text);

}  // namespace plimsoll::why
