// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/launches.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

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

// flows: a gradient has to reach what the layer reads.
PartLaunches layer_launches(Model& m, std::int64_t index, bool flows) {
  PartLaunches result;
  const Tensor exists{kBlockUnit, 0, Name::kCublas};
  Workspaces workspaces{exists, exists, exists, exists};
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
  stand_in(g, m, shared);
  const std::uint8_t width = m.architecture().streams != nullptr && m.autocast ? std::uint8_t{4} : m.width;
  Var x = g.alloc(m.stream_elements(), width, Name::kLayerInput);
  if (flows) g.require_grad(x);
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

// What of each layer is trained, and whether a gradient passes it. Only where a job chooses layers or parameters do
// layers of one kind differ.
class Situations {
 public:
  explicit Situations(const Model& m)
      : m_(m), chooses_(m.job->trainable_layers != 0 || !m.job->trainable_parameters.empty()) {
    const auto end = m.weights.begin() + std::max<std::int32_t>(0, m.embedding + 1);
    flows_ = !chooses_ || std::any_of(m.weights.begin(), end, [](const Weight& w) { return w.trainable; });
  }
  struct Layer {
    std::vector<bool> trained;
    bool flows = true;  // to its input
    friend auto operator<=>(const Layer&, const Layer&) = default;
  };
  // Of the layers one after the other, from the lowest.
  Layer next(const LayerIds& ids) {
    Layer layer{{}, flows_};
    if (!chooses_) return layer;
    for (std::int32_t id = ids.first; id < ids.last; ++id) {
      layer.trained.push_back(m_.weights[static_cast<std::size_t>(id)].trainable);
      flows_ = flows_ || layer.trained.back();
    }
    return layer;
  }

 private:
  const Model& m_;
  bool chooses_;
  bool flows_;
};

}  // namespace

StepLaunches launches_of(const job::Job& job) {
  StepLaunches result;
  Model m = make_model(job, whole_model(job));
  const bool accumulates = job.micro_batches > 1;
  result.kinds.resize(job.model.kinds.size());
  const std::vector<std::int64_t> alike = alike_layers(m);  // adapters may make some of a kind differ
  std::vector<bool> taken(job.model.kinds.size(), false);
  std::map<std::tuple<std::int64_t, Situations::Layer>, std::size_t> known;
  Situations situations(m);
  for (std::int64_t i = 0; i < m.depth(); ++i) {
    const std::size_t kind = job.model.layers[static_cast<std::size_t>(i)];
    const LayerIds& ids = m.layers[static_cast<std::size_t>(i)];
    const Situations::Layer situation = situations.next(ids);
    const auto [place, is_new] =
        known.try_emplace({alike[static_cast<std::size_t>(i)], situation}, taken[kind] ? result.kinds.size() : kind);
    result.of_layer.push_back(place->second);
    if (!is_new) continue;
    taken[kind] = true;
    if (place->second == result.kinds.size()) result.kinds.emplace_back();
    set_gradients(m, accumulates);
    PartLaunches& part = result.kinds[place->second];
    part = layer_launches(m, i, situation.flows);
    part.tensors = static_cast<double>(ids.last - ids.first);
  }
  set_gradients(m, accumulates);
  result.ends = end_launches(m);
  for (const Weight& w : m.weights) result.ends.tensors += w.layer < 0 ? 1 : 0;
  return result;
}

}  // namespace plimsoll::step::transformers
