// SPDX-License-Identifier: Apache-2.0
#include "step/tensor.h"

#include <array>

namespace plimsoll::step {

namespace {

struct NameInfo {
  Category category;
  std::string_view text;
};

constexpr std::array kNames = {
#define X(enumerator, category, text) NameInfo{Category::category, text},
    PLIMSOLL_TENSOR_NAMES(X)
#undef X
};

constexpr std::array<std::string_view, 64> kOperations = {
#define X(enumerator, text) text,
    PLIMSOLL_OPERATIONS(X)
#undef X
};

}  // namespace

Category category_of(Name name) { return kNames[static_cast<std::size_t>(name)].category; }
std::string_view text_of(Name name) { return kNames[static_cast<std::size_t>(name)].text; }

std::string_view text_of(Category category) {
  switch (category) {
    case Category::kParameters:
      return "parameters";
    case Category::kGradients:
      return "gradients";
    case Category::kOptimizer:
      return "optimizer state";
    case Category::kActivations:
      return "activations";
    case Category::kTemporaries:
      return "temporaries";
    case Category::kWorkspaces:
      return "workspaces";
    case Category::kCommunication:
      return "communication";
  }
  return {};
}

std::string_view text_of(Phase phase) {
  switch (phase) {
    case Phase::kModel:
      return "building the model";
    case Phase::kWrap:
      return "wrapping the model";
    case Phase::kOptimizer:
      return "building the optimizer";
    case Phase::kFirstForward:
      return "forward of the first step";
    case Phase::kFirstBackward:
      return "backward of the first step";
    case Phase::kFirstUpdate:
      return "first optimizer step";
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kUpdate:
      return "optimizer step";
    case Phase::kEvaluation:
      return "evaluation";
  }
  return {};
}

std::string_view text_of(Operation operation) { return kOperations[static_cast<std::size_t>(operation)]; }

}  // namespace plimsoll::step
