// SPDX-License-Identifier: Apache-2.0
// One micro-batch through the model: embedding, layers, head and loss forward, then backward. Walked
// passes run every layer; folded ones add each layer kind's measured profile, on the same path.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "step/transformers/model.h"

namespace plimsoll::step::transformers {

// What sharding does around the modules it wraps. Unit -1 is the root; layers count from 0; the
// embedding and the head may be units of their own.
inline constexpr std::int64_t kRootUnit = -1;
inline constexpr std::int64_t kEmbeddingUnit = -2;
inline constexpr std::int64_t kHeadUnit = -3;
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  virtual void before_forward(std::int64_t unit) = 0;
  virtual void after_forward(std::int64_t unit) = 0;
  virtual void before_backward(std::int64_t unit) = 0;
  virtual void after_backward(std::int64_t unit) = 0;
};

// Measured layers of a folded run.
class LayerProfiles {
 public:
  struct Measured {
    Profile forward;         // the caller holds x throughout
    Profile leave_autocast;  // weight casts that nothing saved
    Profile backward;
    bool keeps_input = false;
    bool grad_is_view = false;  // of the gradient that leaves below
    std::int64_t output = 0;    // bytes of the output and of the gradients, rounded to blocks
    std::int64_t grad = 0;
  };
  explicit LayerProfiles(const Model& model) : model_(model) {}
  const Measured& of(std::int64_t layer, bool needs_grad, bool accumulates, bool grad_is_view, bool training);

 private:
  const Model& model_;
  std::map<std::tuple<std::uint8_t, bool, bool, bool, bool>, Measured> measured_;
};

class Pass {
 public:
  Pass(Model& model, Tape& tape, Workspaces& workspaces, UnitHooks* units, bool folded);

  // Tokens of the next micro-batch replace the last ones.
  void load_batch();
  // With labels, up to and including the loss.
  void forward();
  void backward(bool accumulates);
  // No gradients; keeps the logits of the batch in `kept` (fp32 where asked) or computes a loss.
  void evaluate(bool with_loss, std::vector<Tensor>* kept, bool kept_fp32);
  [[nodiscard]] Graph& graph() { return g_; }

 private:
  [[nodiscard]] bool checkpoints(std::int64_t layer) const;
  Var embed();
  Var run_layers(Var x);
  Var run_base();
  Var head(const Var& hidden);
  Var loss(const Var& logits);
  void enter_unit(std::int64_t unit);
  void leave_unit(std::int64_t unit);
  void backward_layers(bool accumulates);

  Model& m_;
  Tape& tape_;
  Workspaces& workspaces_;
  UnitHooks* units_;
  Graph g_;
  std::unique_ptr<LayerProfiles> folded_;
  Var ids_, padding_, positions_;
  Shared shared_;
  Var loss_, kept_logits_;
  std::vector<std::size_t> starts_;     // first node of each layer
  std::int32_t boundary_ = -1;          // folded: collects the gradient of the last layer's output
  std::int32_t input_ = -1;             // producer of the first layer's input
  std::uint8_t input_output_ = 0;
  bool needs_grad_ = false;             // of the first layer's input
  std::size_t after_layers_ = 0;
  std::size_t after_head_ = 0;
};

}  // namespace plimsoll::step::transformers
