// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/launches.h"

#include <algorithm>

#include "step/transformers/fold.h"
#include "step/transformers/pass.h"

namespace plimsoll::step::transformers {

namespace {

// From the second micro-batch on, gradients are added to those that exist.
void set_gradients(Model& m, bool exist) {
  for (Weight& w : m.weights) w.grad = exist ? Tensor{kBlockUnit, 0, Name::kGradient} : Tensor{};
}

double adding_share(const Model& m) {
  const auto batches = static_cast<double>(std::max<std::int64_t>(1, m.job->micro_batches));
  return (batches - 1) / batches;
}

// One layer of each kind, the commonest where adapters make some differ; -1: the model has none of the kind.
std::vector<std::int64_t> usual_layers(const Model& m) {
  const std::vector<std::int64_t> alike = alike_layers(m);
  std::vector<std::int64_t> count(alike.size(), 0);
  for (const std::int64_t first : alike) ++count[static_cast<std::size_t>(first)];
  std::vector<std::int64_t> usual(m.architecture().kinds.size(), -1);
  for (std::size_t i = 0; i < alike.size(); ++i) {
    std::int64_t& best = usual[m.architecture().layers[i]];
    if (best < 0 || count[i] > count[static_cast<std::size_t>(best)]) best = static_cast<std::int64_t>(i);
  }
  return usual;
}

PartLaunches layer_launches(Model& m, std::int64_t index) {
  PartLaunches result;
  const Tensor exists{kBlockUnit, 0, Name::kCublas};
  Workspaces workspaces{exists, exists, exists};
  Tape tape;
  Graph g(tape, m.weights, m.device);
  g.workspaces = &workspaces;
  Shared shared;
  if (m.torchtitan) {
    shared.cos = g.constant(m.sequence, 4);
  } else {
    make_masks(g, m, shared);
    if (m.architecture().rope) make_rotary(g, m, shared);
  }
  g.autocast = m.autocast;
  g.adding_share = adding_share(m);
  Var x = g.alloc(m.residual_tokens() * m.architecture().hidden, m.width, Name::kLayerInput);
  g.require_grad(x);
  const std::size_t first = g.size();
  Meter meter(result.forward);
  g.meter = &meter;
  Var y = layer(g, m, index, shared, x);
  g.meter = nullptr;
  g.leave_autocast();
  g.autocast = false;
  if (y.has_grad()) {
    Var incoming = g.alloc(y.elements, y.width, Name::kResidualGrad);
    meter.report_to(result.backward, true);
    g.meter = &meter;
    g.start_backward(y, std::move(incoming));
    g.backward(first);
    g.meter = nullptr;
  }
  g.abandon();
  return result;
}

PartLaunches end_launches(Model& m) {
  PartLaunches result;
  Workspaces workspaces;
  Tape tape;
  LayerProfiles profiles(m);
  Pass pass(m, tape, workspaces, nullptr, &profiles);
  Meter meter(result.forward);
  pass.graph().meter = &meter;
  pass.graph().adding_share = adding_share(m);
  pass.load_batch();
  (void)pass.forward();
  meter.report_to(result.backward, true);
  (void)pass.backward();
  pass.graph().meter = nullptr;
  return result;
}

}  // namespace

StepLaunches launches_of(const job::Job& job) {
  StepLaunches result;
  Model m = make_model(job, whole_model(job));
  const bool accumulates = job.micro_batches > 1;
  result.kinds.resize(job.model.kinds.size());
  for (const std::int64_t i : usual_layers(m)) {
    if (i < 0) continue;
    const std::size_t kind = job.model.layers[static_cast<std::size_t>(i)];
    set_gradients(m, accumulates);
    const LayerIds& ids = m.layers[static_cast<std::size_t>(i)];
    result.kinds[kind] = layer_launches(m, i);
    result.kinds[kind].tensors = static_cast<double>(ids.last - ids.first);
  }
  set_gradients(m, accumulates);
  result.ends = end_launches(m);
  for (const Weight& w : m.weights) result.ends.tensors += w.layer < 0 ? 1 : 0;
  return result;
}

}  // namespace plimsoll::step::transformers
