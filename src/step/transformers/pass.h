// SPDX-License-Identifier: Apache-2.0
// One micro-batch through the model: embedding, layers, head and loss forward, then backward. Walked
// passes run every layer; folded ones add each layer kind's measured profile, on the same path.
#pragma once

#include <memory>

#include "step/transformers/fold.h"
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

struct Teacher;
// Of a frozen model whose weights are sharded the layer that runs is gathered; 0 where they are whole.
[[nodiscard]] std::int64_t gathered_bytes(const Model& m);

class Pass {
 public:
  Pass(Model& model, Tape& tape, Workspaces& workspaces, UnitHooks* units, LayerProfiles* folded);

  ~Pass() {
    reference_.reset();
    g_.abandon();
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  // Tokens of the next micro-batch replace the last ones.
  void load_batch();
  // With labels, up to and including the loss; a stage without the loss returns what it sends.
  Tensor forward();
  // A stage without the embedding returns the gradient of what it received.
  Tensor backward();
  // Frees what a finished pass still holds.
  void release();
  // No gradients; keeps the logits of the batch in `kept` (fp32 where asked) or computes a loss.
  void evaluate(bool with_loss, std::vector<Tensor>* kept, bool kept_fp32);
  void end_evaluation();
  [[nodiscard]] Graph& graph() { return g_; }

 private:
  [[nodiscard]] bool checkpoints(std::int64_t layer) const;
  Var embed();
  // Runs the tower and puts its features in the place of the images' tokens.
  Var with_images(const Var& embeds);
  Var run_layers(Var x);
  // The encoder's output is kept for the decoder, whose own input is returned.
  Var enter_decoder(Var encoded);
  Var fold_layers(Var x);
  void drop_tables();
  void leave_autocast();
  Var run_base();
  Var head(const Var& hidden);
  Var loss(const Var& logits);
  Var smoothed_loss(Var logits);
  void hand_out(Var logits);
  [[nodiscard]] bool smooths() const;
  [[nodiscard]] bool has_fused_loss() const;
  Var run_fused_loss(const Var& hidden);
  void enter_unit(std::int64_t unit);
  void leave_unit(std::int64_t unit);
  void backward_layers();
  // Whether a weight of the layer is trained.
  [[nodiscard]] bool trains(std::int64_t layer) const;
  // The teacher of a distillation sees the same tokens (pass_teacher.cpp).
  void ask_teacher();
  // Preference training: the loss is made outside the model, beside the logits of a reference (pass_preference.cpp).
  [[nodiscard]] bool prefers() const;
  Var preference_loss(Var logits);
  Var ask_reference();
  Var ask_once();
  Var chosen_loss(const Var& logits);
  LayerSituation situation_of(std::int64_t layer) const;

  Model& m_;
  Tape& tape_;
  Workspaces& workspaces_;
  UnitHooks* units_;
  Graph g_;
  LayerProfiles* folded_;   // null: every layer is walked
  bool is_biased_ = false;  // of folded layers: a product in them adds a bias
  Var ids_, labels_, decoder_ids_, evaluated_ids_, padding_, positions_;
  Var speech_;                         // what the encoder of speech holds until it returns
  Var pixels_, image_features_;        // pixels, or frames of speech
  Var encoder_output_;                 // also an output of the model
  Var decoder_embeds_;                 // held by the decoder's forward
  std::int64_t encoder_sequence_ = 0;  // the pass's own where there is no decoder
  std::vector<Var> deepstack_;
  Shared shared_;
  std::int64_t lowest_ = -1;  // folded: the layer whose backward frees the tables
  Var loss_, kept_logits_;
  Var teacher_logits_, teacher_softmax_, unused_logits_;
  Var sent_;                         // a stage's output, without its storage
  std::vector<std::size_t> starts_;  // first node of each layer
  std::int32_t boundary_ = -1;       // folded: collects the gradient of the last layer's output
  std::int32_t input_ = -1;          // producer of the first layer's input
  std::uint8_t input_output_ = 0;
  std::uint8_t input_width_ = 2;
  std::vector<bool> needs_grad_;  // by layer: of its input
  std::size_t after_layers_ = 0;
  std::size_t after_head_ = 0;
  std::unique_ptr<Pass> reference_;
  std::shared_ptr<Teacher> teacher_;
};

}  // namespace plimsoll::step::transformers
