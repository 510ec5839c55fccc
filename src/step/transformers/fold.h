// SPDX-License-Identifier: Apache-2.0
// Layers measured once each on a scratch tape: what a layer of a kind does to memory in forward and
// backward, so that a folded run adds sums instead of events. Invariant: a folded run reaches the same
// peak, to the byte, as the recorded one.
#pragma once

#include <map>
#include <tuple>

#include "step/transformers/model.h"

namespace plimsoll::step::transformers {

// How a layer of a kind is run, as far as its memory depends on it.
struct LayerSituation {
  bool training = true;
  bool adapted = true;  // with its adapters
  bool checkpointed = false;
  bool input_needs_grad = true;
  bool accumulates = false;    // its weights have gradients already
  bool grad_is_view = false;   // the gradient that arrives cannot be added to in place
  bool input_is_held = false;  // a pipeline schedule holds it
  bool grad_is_held = false;   // likewise the gradient that arrives
  bool frees_tables = false;   // the lowest layer: shared tables die in its backward

  friend auto operator<=>(const LayerSituation&, const LayerSituation&) = default;
};

struct MeasuredLayer {
  Profile forward;         // the caller holds the input throughout
  Profile leave_autocast;  // weight casts that nothing saved
  Profile backward;
  bool keeps_input = false;
  bool has_grad = false;      // of the output: whether gradients flow through
  unsigned keeps_tables = 0;  // bits: cos, sin, full mask, sliding mask
  bool grad_is_view = false;  // of the gradient that leaves
  std::uint8_t width = 2;     // of the output
  std::int64_t output = 0;    // bytes as blocks: output, and the gradient that leaves
  std::int64_t grad = 0;
};

// By layer: the first one that is of its kind and whose weights are of the same sizes and as much trained. Adapters of
// chosen layers or of several ranks make layers of one kind differ.
[[nodiscard]] std::vector<std::int64_t> alike_layers(const Model& model);

class LayerProfiles {
 public:
  explicit LayerProfiles(const Model& model) : scratch_(model), alike_(alike_layers(model)) {}
  // Shapes and precision of the pass that follows.
  void use(const Model& model);
  const MeasuredLayer& of(std::int64_t layer, const LayerSituation& situation, const Shared& shared,
                          std::uint8_t input_width);

 private:
  MeasuredLayer measure(std::int64_t layer, const LayerSituation& situation, const Shared& shared,
                        std::uint8_t input_width);
  Model scratch_;
  std::vector<std::int64_t> alike_;
  std::map<std::tuple<std::int64_t, LayerSituation, std::int64_t, std::int64_t>, MeasuredLayer> measured_;
};

}  // namespace plimsoll::step::transformers
