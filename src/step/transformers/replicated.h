// SPDX-License-Identifier: Apache-2.0
// A model held whole on every rank: one GPU, or DDP with its gradient buckets
// (facts other-frameworks-memory.md 1).
#pragma once

#include "step/transformers/sharder.h"

namespace plimsoll::step::transformers {

// Weights of a model built on the GPU, with the head's transient where it is tied.
void build_weights(Model& model, Tape& tape);
// Where the framework empties the cache first: what building the model left behind is not there for the first step.
void begin_training(const job::Job& job, Tape& tape);

class Replicated final : public Sharder {
 public:
  Replicated(Model& model, Tape& tape);
  void build() override;
  void begin_micro_batch(bool first, bool last) override;
  void end_backward(bool last) override;
  void before_step() override {}
  void after_step() override {}
  void drop_gradients() override;
  [[nodiscard]] std::vector<Updated> updated() const override;
  void gradient_ready(std::int32_t weight) override;
  [[nodiscard]] bool follows_gradients() const override { return views_; }

 private:
  void make_buckets(std::int64_t cap);

  Model& m_;
  Tape& tape_;
  bool buckets_exist_ = false;
  bool views_ = false;  // gradient_as_bucket_view
  bool rebuilt_ = false;
  bool stepped_ = false;
  std::vector<Tensor> buckets_;
};

}  // namespace plimsoll::step::transformers
