// SPDX-License-Identifier: Apache-2.0
#include "why/graph_node.h"

#include <gtest/gtest.h>

namespace plimsoll::why {
namespace {

TEST(GraphNode, its_path_says_where_in_the_step_it_lies) {
  EXPECT_EQ(phase_of_graph_node("[[{{node training/Adam/mul_12}}]]"), Phase::kOptimizerStep);
  EXPECT_EQ(phase_of_graph_node("[[Node: training_10/Adam/mul_23 = Mul[T=DT_FLOAT]]]"), Phase::kOptimizerStep);
  EXPECT_EQ(phase_of_graph_node("[[{{node encoder/dense/MatMul}}]]"), Phase::kForward);
  EXPECT_EQ(phase_of_graph_node("[[Node: save/RestoreV2_7 = RestoreV2[]]]"), Phase::kResume);
  EXPECT_EQ(phase_of_graph_node("[[{{node embed/Initializer/random_uniform}}]]"), Phase::kLoad);
}

// An optimizer asks for the gradients below its own name: the failure is in backward all the same.
TEST(GraphNode, gradients_below_an_optimizer_are_backward) {
  EXPECT_EQ(phase_of_graph_node("[[{{node Optimizer/gradients/decoder/relu_grad/Select}}]]"), Phase::kBackward);
}

TEST(GraphNode, a_line_without_a_node_says_nothing) {
  EXPECT_EQ(phase_of_graph_node("OOM when allocating tensor with shape[4096]"), std::nullopt);
  EXPECT_EQ(phase_of_graph_node("[[1, 2], [3, 4]]"), std::nullopt);
  EXPECT_EQ(phase_of_graph_node("[[{{node }}]]"), std::nullopt);
}

}  // namespace
}  // namespace plimsoll::why
