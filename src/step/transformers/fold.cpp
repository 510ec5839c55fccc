// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/fold.h"

#include <algorithm>

namespace plimsoll::step::transformers {

namespace {

std::int64_t blocks(std::int64_t bytes) { return (bytes + kBlockUnit - 1) / kBlockUnit * kBlockUnit; }

bool are_alike(const Model& m, std::int64_t one, std::int64_t other) {
  const auto& kinds = m.architecture().layers;
  if (kinds[static_cast<std::size_t>(m.first_layer + one)] != kinds[static_cast<std::size_t>(m.first_layer + other)])
    return false;
  const LayerIds& a = m.layers[static_cast<std::size_t>(one)];
  const LayerIds& b = m.layers[static_cast<std::size_t>(other)];
  return std::equal(m.weights.begin() + a.first, m.weights.begin() + a.last, m.weights.begin() + b.first,
                    m.weights.begin() + b.last, [](const Weight& x, const Weight& y) {
                      return x.elements == y.elements && x.trainable == y.trainable && x.kind == y.kind;
                    });
}

}  // namespace

std::vector<std::int64_t> alike_layers(const Model& model) {
  std::vector<std::int64_t> alike, firsts;
  for (std::int64_t i = 0; i < model.depth(); ++i) {
    const auto found =
        std::find_if(firsts.begin(), firsts.end(), [&](std::int64_t first) { return are_alike(model, first, i); });
    alike.push_back(found == firsts.end() ? i : *found);
    if (found == firsts.end()) firsts.push_back(i);
  }
  return alike;
}

void LayerProfiles::use(const Model& model) {
  scratch_.batch = model.batch;
  scratch_.sequence = model.sequence;
}

const MeasuredLayer& LayerProfiles::of(std::int64_t layer_index, const LayerSituation& situation, const Shared& shared,
                                       std::uint8_t input_width) {
  const auto key =
      std::make_tuple(alike_[static_cast<std::size_t>(layer_index)], situation, scratch_.batch, scratch_.sequence);
  const auto found = measured_.find(key);
  if (found != measured_.end()) return found->second;
  return measured_.emplace(key, measure(layer_index, situation, shared, input_width)).first->second;
}

MeasuredLayer LayerProfiles::measure(std::int64_t index, const LayerSituation& situation, const Shared& shared,
                                     std::uint8_t input_width) {
  MeasuredLayer result;
  const LayerIds& ids = scratch_.layers[static_cast<std::size_t>(index)];
  for (std::int32_t id = ids.first; id < ids.last; ++id) {
    Weight& w = scratch_.weights[static_cast<std::size_t>(id)];
    w.grad = situation.accumulates ? Tensor{kBlockUnit, 0, Name::kGradient} : Tensor{};
  }
  const Tensor exists{kBlockUnit, 0, Name::kCublas};
  Workspaces workspaces{exists, exists, exists, exists};
  Tape tape;
  Graph g(tape, scratch_.weights, scratch_.device);
  g.workspaces = &workspaces;
  g.grad_enabled = situation.training;
  g.adapters = situation.adapted;
  g.autocast = scratch_.autocast;
  g.selective = scratch_.job->recompute.granularity == job::RecomputeGranularity::kSelectiveOps;
  g.stops_early = !scratch_.torchtitan;

  // Tables have a storage here only where their end is part of the measurement.
  Shared tables;
  const std::array<const Var*, 4> given{&shared.cos, &shared.sin, &shared.full_mask, &shared.sliding_mask};
  const std::array<Var*, 4> used{&tables.cos, &tables.sin, &tables.full_mask, &tables.sliding_mask};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!*given[i]) continue;
    *used[i] = situation.frees_tables && given[i]->has_storage()
                   ? g.alloc(given[i]->elements, given[i]->width, Name::kRope)
                   : g.constant(given[i]->elements, given[i]->width);
  }
  if (shared.positions) tables.positions = g.constant(shared.positions.elements, shared.positions.width);
  stand_in(g, scratch_, tables);
  const std::int64_t elements = scratch_.stream_elements();
  Var x =
      situation.input_is_held ? g.constant(elements, input_width) : g.alloc(elements, input_width, Name::kLayerInput);
  if (situation.training && situation.input_needs_grad) g.require_grad(x);
  const std::int32_t boundary = x.node;
  const std::size_t first = g.size();

  tape.reset();
  Var y = situation.checkpointed
              ? g.checkpoint(
                    x, [&g, this, index, tables](const Var& input) { return layer(g, scratch_, index, tables, input); })
              : layer(g, scratch_, index, tables, x);
  result.forward = tape.profile();
  result.width = y.width;
  result.has_grad = y.has_grad();
  result.output = blocks(y.bytes());
  std::int64_t live = tape.live();
  x.reset();
  result.keeps_input = tape.live() == live;
  for (std::size_t i = 0; i < used.size(); ++i) {
    live = tape.live();
    const bool had = used[i]->has_storage();
    used[i]->reset();
    if (had && situation.frees_tables && tape.live() == live) result.keeps_tables |= 1U << i;
  }
  tape.reset();
  g.leave_autocast();
  g.autocast = false;
  result.leave_autocast = tape.profile();
  if (!situation.training || !y.has_grad()) {
    (void)g.take(y);
    return result;
  }

  Var incoming =
      situation.grad_is_held ? g.constant(y.elements, y.width) : g.alloc(y.elements, y.width, Name::kResidualGrad);
  incoming.is_view = situation.grad_is_view;
  Var output = y;
  (void)g.take(y);
  tape.reset();
  g.start_backward(output, std::move(incoming));
  output.reset();
  g.backward(first);
  result.backward = tape.profile();
  if (boundary >= 0) {
    Var leaving = g.take_grad(boundary);
    result.grad = blocks(leaving.bytes());
    result.grad_is_view = leaving.is_view;
    (void)g.take(leaving);
  }
  return result;
}

}  // namespace plimsoll::step::transformers
