// SPDX-License-Identifier: Apache-2.0
// A small model of PyTorch's eager execution, reduced to what it does to memory: tensors are counted
// references to storages, operations record what their backward needs, and backward walks the recorded
// nodes in PyTorch's order, accumulating gradients as its engine does. Builders of model families write
// only forward code; the order of every allocation and release in backward follows from these rules
// (facts other-frameworks-memory.md 2.1, 2.7).
//
// Rules that decide bytes:
//   - nodes run from the newest to the oldest; gradients of weights are taken over at once
//   - incoming gradients die when a node's backward returns, then its saved tensors
//   - a second gradient for the same tensor is added in place unless the first is a view or is shared
//   - inside a checkpointed region saved tensors are dropped; the first backward that needs one replays
//     the region up to the last tensor that was saved (non-reentrant checkpointing, facts
//     other-frameworks-memory.md 2.4)
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "step/tape.h"
#include "step/transformers/meter.h"
#include "step/transformers/weights.h"

namespace plimsoll::step::transformers {

class Graph;

// A tensor of the running program. Copies share its storage; the storage is freed with the last copy.
class Var {
 public:
  Var() = default;
  Var(const Var& other);
  Var(Var&& other) noexcept;
  Var& operator=(Var other) noexcept {
    swap(other);
    return *this;
  }
  ~Var() {
    if (slot_ != 0) release();
  }
  void reset();
  void swap(Var& other) noexcept;

  [[nodiscard]] std::int64_t bytes() const { return elements * width; }
  [[nodiscard]] bool has_storage() const { return slot_ != 0; }
  [[nodiscard]] bool has_grad() const { return node >= 0 || weight >= 0; }
  explicit operator bool() const { return elements > 0; }

  std::int64_t elements = 0;
  std::int32_t node = -1;    // producer, where a gradient must flow; -1: none
  std::int32_t weight = -1;  // a trainable weight used as it is stored
  std::uint8_t width = 0;    // bytes per element
  std::uint8_t output = 0;   // which output of the producer
  bool is_view = false;      // as a gradient: not reusable in place
  bool per_channel = false;  // a vector along the last dimension, for broadcasting
  bool head_major = false;   // stored [b,a,s,d]: a view back to tokens must copy

 private:
  friend class Graph;
  void release();  // of the storage, which there must be

  Graph* graph_ = nullptr;
  std::uint32_t slot_ = 0;
};

// Facts of the GPU that operations need.
struct Device {
  std::int64_t multiprocessors = 132;
  std::int64_t workspace = 0;   // cuBLAS, per thread that multiplies
  bool fused_attention = true;  // cuDNN attention; else the flash kernels
};

// cuBLAS workspaces of the forward and the autograd thread, and cuBLASLt's for products with a bias.
struct Workspaces {
  Tensor forward;
  Tensor backward;
  Tensor bias;
  Tensor replayed_bias;  // the autograd thread's, where it replays such products
};

inline constexpr int kMaxSaved = 8;
inline constexpr int kMaxEdges = 4;

struct Edge {
  std::int32_t node = -1;
  std::int32_t weight = -1;
  std::uint8_t output = 0;
  [[nodiscard]] bool exists() const { return node >= 0 || weight >= 0; }
};

struct Node;
using Grads = std::array<Var, kMaxEdges>;
// Computes gradients of a node's inputs from node.grads.
using Backward = void (*)(Graph& graph, Node& node, Grads& result);

// Numbers that an operation's backward needs: element counts and widths, named by each operation.
struct Node {
  Backward backward = nullptr;
  std::array<Edge, kMaxEdges> edges{};
  std::array<Var, kMaxSaved> saved{};
  std::array<Var, kMaxEdges> grads{};  // of this node's outputs
  std::array<std::int64_t, 6> n{};
  std::array<std::uint8_t, 4> w{};
  Operation operation = Operation::kNone;
  std::uint8_t saves = 0;
  std::int32_t region = -1;  // checkpointed region whose replay fills `saved`
  std::int32_t packed = 0;   // index of the first saved tensor in the region
};

class Graph {
 public:
  Graph(Tape& tape, std::vector<Weight>& weights, const Device& device)
      : tape_(tape), weights_(weights), device_(device) {
    slots_.emplace_back();
  }
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  [[nodiscard]] Tape& tape() { return tape_; }
  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] Weight& weight(std::int32_t id) { return weights_[static_cast<std::size_t>(id)]; }

  // A fresh tensor.
  Var alloc(std::int64_t elements, std::uint8_t width, Name name);
  // One that an operation of its own makes, without a gradient: indices, tables, masks.
  Var make(std::int64_t elements, std::uint8_t width, Name name) {
    reads(0);
    return alloc(elements, width, name);
  }
  // One of the kernel that was counted last: its scratch, or its second result.
  Var alloc_beside(std::int64_t elements, std::uint8_t width, Name name);
  // The same storage with another element count (a slice, half a packed tensor); keeps the producer.
  Var view(const Var& of, std::int64_t elements);
  // A tensor whose storage is not of this graph: a weight as stored, a constant, or an input.
  Var constant(std::int64_t elements, std::uint8_t width) const;
  Var use(std::int32_t weight_id);  // -1, the weight that a module does not have: nothing
  // Takes a storage over, e.g. a message received from another stage.
  Var adopt(Tensor tensor, std::int64_t elements, std::uint8_t width);
  // Gives the storage away; the value must be its only owner.
  Tensor take(Var& value);

  // Records an operation on `inputs`; -1 where no gradient flows (then save() does nothing).
  template <class... Vars>
  std::int32_t node(Backward fn, const Vars&... inputs) {
    if (meter != nullptr && !stopped_) meter->begin((inputs.bytes() + ... + 0));
    const std::array<Edge, sizeof...(inputs)> edges{edge_of(inputs)...};
    return node_of(fn, edges.data(), static_cast<int>(edges.size()));
  }
  void save(std::int32_t node, const Var& value);
  Node& at(std::int32_t node) { return nodes_[static_cast<std::size_t>(node)]; }
  // Marks a value as the node's output.
  void produced(Var& value, std::int32_t node, std::uint8_t output = 0) {
    value.node = node;
    value.weight = -1;
    value.output = output;
  }

  // Runs fn with its saved tensors dropped and replays it in backward. x is what the region keeps.
  Var checkpoint(const Var& x, std::function<Var(const Var&)> fn);
  // Per-operation checkpointing: products in turn and attention results stay, so a replay reuses them.
  bool selective = false;
  // A replay ends with the last tensor that backward needs; torchtitan's runs to the end of its region.
  bool stops_early = true;
  [[nodiscard]] Var reuse_result(bool is_product);
  void keep_result(const Var& value, bool is_product);
  // True after the last saved tensor of a replay: the rest of the region does nothing.
  [[nodiscard]] bool stopped() const { return stopped_; }

  // An input whose gradient is collected instead of passed on.
  void require_grad(Var& value);
  [[nodiscard]] Var take_grad(std::int32_t node);

  void start_backward(const Var& of, Var grad);
  // Runs backward of every node from the newest down to `first`.
  void backward(std::size_t first);
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }

  // Nodes that no gradient reaches, because nobody holds their results, and what they have saved.
  void forget(std::size_t first, std::size_t last);

  // The program ends here: what is still alive stays on the tape.
  void abandon();

  // Who writes down what is launched; null: nobody.
  Meter* meter = nullptr;
  // Inside an operation of several kernels: what the next one reads.
  void reads(std::int64_t bytes) {
    if (meter != nullptr && !stopped_) meter->next(bytes);
  }
  // The next kernel broadcasts, reorders or widens, so that it cannot vectorise.
  void scattered(bool is = true) {
    if (is && meter != nullptr && !stopped_) meter->scattered();
  }
  // Operations on a few numbers, which leave nothing that the tape would show.
  void runs_small(int operations) {
    if (meter != nullptr && !stopped_) meter->small(operations);
  }
  // Launches from inside the running operation beside the one that is counted.
  void launches_inside(double launches) {
    if (meter != nullptr && !stopped_) meter->inner(launches);
  }
  // The running operation is a product; its result follows.
  void multiplies(const Product& product) {
    if (meter != nullptr && !stopped_) meter->product(product);
  }

  // Gradient mode and autocast, as the surrounding Python would set them.
  bool grad_enabled = true;
  bool autocast = false;
  bool adapters = true;     // PEFT's disable_adapter turns them off
  double adding_share = 1;  // of the micro-batches that find a gradient when theirs is complete
  // Called when a weight's gradient is complete (DDP, ZeRO).
  std::function<void(std::int32_t)> on_gradient;

  // cuBLAS workspaces appear with the first product of a thread and stay.
  Workspaces* workspaces = nullptr;
  void first_forward_product(bool with_bias);
  void first_backward_product();
  void first_replayed_product();  // with a bias
  // What a replay filled dies when the backward function returns, before its results are summed or cast.
  void drop_replayed(Node& node);

  // A 16-bit copy of a weight as autocast makes it; trainable fp32 weights are cached until leave_autocast.
  Var cast_weight(std::int32_t weight_id);
  void leave_autocast();

 private:
  friend class Var;
  struct Slot {
    Tensor tensor;
    std::int32_t references = 0;
  };
  struct Region {
    std::function<Var(const Var&)> fn;
    Var x;
    std::int32_t saves = 0;  // tensors that the region's operations save
    std::int32_t users = 0;  // nodes that still need the replay
    bool autocast = false;
    bool replayed = false;
    std::vector<Var> values;   // filled by the replay
    std::vector<Var> results;  // kept by the per-operation policy, in order
    std::size_t reused = 0;
    std::int32_t products = 0;
  };
  struct Arrivals {
    std::int32_t uses = 0;
    std::int32_t came = 0;
  };
  enum class Mode : std::uint8_t { kNormal, kPacking, kReplaying };

  Edge edge_of(const Var& value) const { return {value.node, value.weight, value.output}; }
  std::int32_t node_of(Backward fn, const Edge* edges, int count);
  void deliver(const Edge& edge, Var grad);
  void accumulate(Var& buffer, Var grad);
  void take_gradient(std::int32_t weight_id);
  void unpack(Node& node);
  void release_region_user(std::int32_t region);

  Tape& tape_;
  std::vector<Weight>& weights_;
  const Device& device_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::deque<Node> nodes_;  // a node is large: none is moved when more come
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<Var> casts_;              // autocast cache, by weight
  std::vector<std::int32_t> cast_ids_;  // its filled entries
  std::vector<Arrivals> arrivals_;      // by weight: uses of the pass, and gradients that came
  std::vector<Var> pending_;            // gradients of weights that are used more than once, by weight
  std::vector<std::int32_t> ready_;     // weights whose gradient is complete
  Mode mode_ = Mode::kNormal;
  Region* region_ = nullptr;
  std::int32_t region_index_ = -1;
  bool stopped_ = false;
};

inline void Var::swap(Var& other) noexcept {
  std::swap(elements, other.elements);
  std::swap(node, other.node);
  std::swap(weight, other.weight);
  std::swap(width, other.width);
  std::swap(output, other.output);
  std::swap(is_view, other.is_view);
  std::swap(head_major, other.head_major);
  std::swap(per_channel, other.per_channel);
  std::swap(graph_, other.graph_);
  std::swap(slot_, other.slot_);
}

inline Var::Var(const Var& other)
    : elements(other.elements),
      node(other.node),
      weight(other.weight),
      width(other.width),
      output(other.output),
      is_view(other.is_view),
      per_channel(other.per_channel),
      head_major(other.head_major),
      graph_(other.graph_),
      slot_(other.slot_) {
  if (slot_ != 0) ++graph_->slots_[slot_].references;
}

inline Var::Var(Var&& other) noexcept
    : elements(std::exchange(other.elements, 0)),
      node(std::exchange(other.node, -1)),
      weight(std::exchange(other.weight, -1)),
      width(std::exchange(other.width, 0)),
      output(std::exchange(other.output, 0)),
      is_view(std::exchange(other.is_view, false)),
      per_channel(std::exchange(other.per_channel, false)),
      head_major(std::exchange(other.head_major, false)),
      graph_(other.graph_),
      slot_(std::exchange(other.slot_, 0)) {}

inline void Var::release() {
  auto& slot = graph_->slots_[slot_];
  if (--slot.references == 0) {
    graph_->tape_.free(slot.tensor);
    graph_->free_slots_.push_back(slot_);
  }
}

inline void Var::reset() {
  if (slot_ != 0) {
    release();
    slot_ = 0;
  }
  elements = 0;
  node = weight = -1;
  is_view = head_major = per_channel = false;
}

}  // namespace plimsoll::step::transformers
