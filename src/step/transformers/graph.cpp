// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/graph.h"

#include <algorithm>

#include "step/transformers/ops.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kBiasWorkspace = std::int64_t{1} << 20;

// What a backward function can read.
std::int64_t bytes_of(const Node& node) {
  std::int64_t bytes = 0;
  for (const Var& grad : node.grads) bytes += grad.bytes();
  for (const Var& value : node.saved) bytes += value.bytes();
  return bytes;
}

}  // namespace

Graph::~Graph() {
  // Values return their storage to this graph, so they must go while the tables still stand.
  casts_.clear();
  pending_.clear();
  nodes_.clear();
  regions_.clear();
}

void Graph::abandon() {
  for (Slot& slot : slots_) slot.tensor = {};
}

Var Graph::alloc(std::int64_t elements, std::uint8_t width, Name name) {
  Var value;
  if (stopped_ || elements <= 0) return value;
  if (meter != nullptr) meter->wrote(elements, width);
  std::uint32_t index = 0;
  if (free_slots_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[index] = {tape_.alloc(elements * width, name), 1};
  value.elements = elements;
  value.width = width;
  value.graph_ = this;
  value.slot_ = index;
  return value;
}

Var Graph::alloc_beside(std::int64_t elements, std::uint8_t width, Name name) {
  Meter* const silent = std::exchange(meter, nullptr);
  Var value = alloc(elements, width, name);
  meter = silent;
  return value;
}

Var Graph::view(const Var& of, std::int64_t elements) {
  Var value = of;
  value.elements = stopped_ ? 0 : elements;
  return value;
}

Var Graph::constant(std::int64_t elements, std::uint8_t width) const {
  Var value;
  if (stopped_) return value;
  value.elements = elements;
  value.width = width;
  return value;
}

Var Graph::use(std::int32_t weight_id) {
  if (weight_id < 0) return {};
  const Weight& w = weight(weight_id);
  Var value = constant(w.elements, w.width);
  if (w.trainable) value.weight = weight_id;
  value.per_channel = w.per_channel;
  return value;
}

Var Graph::adopt(Tensor tensor, std::int64_t elements, std::uint8_t width) {
  Var value = constant(elements, width);
  std::uint32_t index = 0;
  if (free_slots_.empty()) {
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[index] = {tensor, 1};
  value.graph_ = this;
  value.slot_ = index;
  return value;
}

Tensor Graph::take(Var& value) {
  Tensor tensor;
  if (value.slot_ == 0) return tensor;
  std::swap(tensor, slots_[value.slot_].tensor);
  value.reset();
  return tensor;
}

std::int32_t Graph::node_of(Backward fn, const Edge* edges, int count) {
  if (!grad_enabled || stopped_) return -1;
  bool flows = false;
  for (int i = 0; i < count; ++i) flows = flows || edges[i].exists();
  if (!flows) return -1;
  Node& node = nodes_.emplace_back();
  node.backward = fn;
  node.operation = tape_.moment().operation;
  for (int i = 0; i < count; ++i) {
    node.edges[static_cast<std::size_t>(i)] = edges[i];
    if (mode_ == Mode::kReplaying || edges[i].weight < 0) continue;
    if (arrivals_.size() < weights_.size()) arrivals_.resize(weights_.size());
    ++arrivals_[static_cast<std::size_t>(edges[i].weight)].uses;
  }
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

void Graph::save(std::int32_t index, const Var& value) {
  if (index < 0 || stopped_) return;
  Node& node = at(index);
  if (meter != nullptr) meter->saves();
  switch (mode_) {
    case Mode::kNormal:
      node.saved[node.saves++] = value;
      return;
    case Mode::kPacking:
      if (node.saves == 0) {
        node.region = region_index_;
        node.packed = region_->saves;
        ++region_->users;
      }
      ++node.saves;
      ++region_->saves;
      return;
    case Mode::kReplaying:
      region_->values.push_back(value);
      if (stops_early && static_cast<std::int32_t>(region_->values.size()) == region_->saves) stopped_ = true;
      return;
  }
}

Var Graph::checkpoint(const Var& x, std::function<Var(const Var&)> fn) {
  if (!grad_enabled || mode_ != Mode::kNormal) return fn(x);
  region_index_ = static_cast<std::int32_t>(regions_.size());
  regions_.push_back(std::make_unique<Region>());
  region_ = regions_.back().get();
  region_->x = x;
  region_->fn = std::move(fn);
  region_->autocast = autocast;
  mode_ = Mode::kPacking;
  Var y = region_->fn(x);
  mode_ = Mode::kNormal;
  if (region_->users == 0) regions_.pop_back();  // no gradient flows through it
  return y;
}

// Every second product is kept, starting with the first, and every attention result.
void Graph::keep_result(const Var& value, bool is_product) {
  if (!selective || mode_ != Mode::kPacking || stopped_) return;
  if (is_product && region_->products++ % 2 != 0) return;
  region_->results.push_back(value);
}

Var Graph::reuse_result(bool is_product) {
  if (!selective || mode_ != Mode::kReplaying || stopped_) return {};
  if (is_product && region_->products++ % 2 != 0) return {};
  if (region_->reused >= region_->results.size()) return {};
  Var value = std::move(region_->results[region_->reused++]);
  value.node = value.weight = -1;
  return value;
}

void Graph::unpack(Node& node) {
  Region& region = *regions_[static_cast<std::size_t>(node.region)];
  if (!region.replayed) {
    region.replayed = true;
    region.products = 0;
    region_ = &region;
    region_index_ = node.region;
    mode_ = Mode::kReplaying;
    const bool outer = autocast;
    autocast = region.autocast;
    const std::size_t first = nodes_.size();
    const Moment moment = tape_.moment();
    tape_.at(Operation::kReplay);
    {
      Var x = region.x;
      Var y = region.fn(x);
    }
    stopped_ = false;
    leave_autocast();
    autocast = outer;
    nodes_.resize(first);
    mode_ = Mode::kNormal;
    tape_.at(moment.operation);
  }
  const auto first_saved = static_cast<std::size_t>(node.packed);
  for (std::size_t i = 0; i < node.saves; ++i) node.saved[i] = std::move(region.values[first_saved + i]);
}

void Graph::release_region_user(std::int32_t index) {
  auto& region = regions_[static_cast<std::size_t>(index)];
  if (--region->users > 0) return;
  region.reset();
  while (!regions_.empty() && regions_.back() == nullptr) regions_.pop_back();
}

void Graph::require_grad(Var& value) {
  Node& node = nodes_.emplace_back();
  (void)node;
  produced(value, static_cast<std::int32_t>(nodes_.size()) - 1);
}

Var Graph::take_grad(std::int32_t node) { return std::move(at(node).grads[0]); }

void Graph::accumulate(Var& buffer, Var grad) {
  if (!buffer) {
    buffer = std::move(grad);
    return;
  }
  const bool in_place = !buffer.is_view && buffer.slot_ != 0 && slots_[buffer.slot_].references == 1;
  if (in_place) {
    if (meter != nullptr) meter->in_place(2 * buffer.bytes() + grad.bytes());
    return;
  }
  reads(buffer.bytes() + grad.bytes());
  Var sum = alloc(buffer.elements, std::max(buffer.width, grad.width), Name::kGrad);
  sum.head_major = buffer.head_major;
  buffer = std::move(sum);
}

void Graph::deliver(const Edge& edge, Var grad) {
  if (!grad) return;
  grad.node = grad.weight = -1;
  if (edge.node >= 0) {
    accumulate(at(edge.node).grads[edge.output], std::move(grad));
  } else if (edge.weight >= 0) {
    Arrivals& arrivals = arrivals_[static_cast<std::size_t>(edge.weight)];
    if (pending_.size() < weights_.size()) pending_.resize(weights_.size());
    accumulate(pending_[static_cast<std::size_t>(edge.weight)], std::move(grad));
    if (++arrivals.came == arrivals.uses) ready_.push_back(edge.weight);
  }
}

void Graph::take_gradient(std::int32_t id) {
  Weight& w = weight(id);
  Var grad = std::move(pending_[static_cast<std::size_t>(id)]);
  arrivals_[static_cast<std::size_t>(id)] = {};
  if (w.grad) {
    if (meter != nullptr) meter->adds_gradient(2 * w.elements * w.width + grad.bytes(), adding_share);
    grad.reset();  // added in place
  } else if (grad.slot_ != 0 && slots_[grad.slot_].references == 1) {
    w.grad = take(grad);
    tape_.rename(w.grad, Name::kGradient);
  } else {
    w.grad = tape_.alloc(w.elements * w.width, Name::kGradient);
  }
  if (on_gradient) on_gradient(id);
}

void Graph::forget(std::size_t first, std::size_t last) {
  for (std::size_t i = last; i-- > first;) {
    Node& node = nodes_[i];
    node.backward = nullptr;
    for (Var& value : node.saved) value.reset();
    if (node.region >= 0) release_region_user(std::exchange(node.region, -1));
    for (const Edge& edge : node.edges)
      if (edge.weight >= 0) --arrivals_[static_cast<std::size_t>(edge.weight)].uses;
    node.edges = {};
  }
}

void Graph::start_backward(const Var& of, Var grad) { deliver(edge_of(of), std::move(grad)); }

void Graph::backward(std::size_t first) {
  while (nodes_.size() > first) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    bool reached = false;
    for (const Var& grad : node.grads) reached = reached || grad;
    if (reached && node.backward != nullptr) {
      tape_.at(node.operation);
      if (node.region >= 0) unpack(node);
      if (meter != nullptr) meter->begin(bytes_of(node));
      Grads result;
      node.backward(*this, node, result);
      drop_replayed(node);
      for (Var& grad : node.grads) grad.reset();
      for (Var& value : node.saved) value.reset();
      if (node.region >= 0) release_region_user(node.region);
      node.region = -1;
      for (std::size_t i = 0; i < node.edges.size(); ++i) deliver(node.edges[i], std::move(result[i]));
      for (const std::int32_t id : ready_) take_gradient(id);
      ready_.clear();
    }
    if (node.region >= 0) release_region_user(node.region);
  }
}

void Graph::drop_replayed(Node& node) {
  if (node.region < 0) return;
  for (auto value = node.saved.rbegin(); value != node.saved.rend(); ++value) value->reset();
}

void Graph::first_forward_product(bool with_bias) {
  if (workspaces == nullptr || stopped_) return;
  if (!workspaces->forward) workspaces->forward = tape_.alloc(device_.workspace, Name::kCublas);
  if (with_bias && mode_ == Mode::kReplaying) return first_replayed_product();
  if (with_bias && !workspaces->bias) workspaces->bias = tape_.alloc(kBiasWorkspace, Name::kCublas);
}

void Graph::first_replayed_product() {
  if (workspaces == nullptr || workspaces->replayed_bias) return;
  workspaces->replayed_bias = tape_.alloc(kBiasWorkspace, Name::kCublas);
}

void Graph::first_backward_product() {
  if (workspaces == nullptr || workspaces->backward) return;
  workspaces->backward = tape_.alloc(device_.workspace, Name::kCublas);
}

Var Graph::cast_weight(std::int32_t id) {
  const Weight& w = weight(id);
  if (w.width == 2) return use(id);
  if (!w.trainable || w.loose) return cast(*this, use(id), 2, Name::kCastWeight);
  const auto index = static_cast<std::size_t>(id);
  if (casts_.size() < weights_.size()) casts_.resize(weights_.size());
  if (!casts_[index]) {
    casts_[index] = cast(*this, use(id), 2, Name::kCastWeight);
    cast_ids_.push_back(id);
  }
  return casts_[index];
}

void Graph::leave_autocast() {
  for (const std::int32_t id : cast_ids_) casts_[static_cast<std::size_t>(id)].reset();
  cast_ids_.clear();
}

}  // namespace plimsoll::step::transformers
