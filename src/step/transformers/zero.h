// SPDX-License-Identifier: Apache-2.0
// DeepSpeed ZeRO, stages 0 to 3: flat parameters, reduce buckets, gradient partitions, and for stage 3 the
// parameters that are gathered around each module; offload moves states to the host or to NVMe
// (facts other-frameworks-memory.md 5).
#pragma once

#include <vector>

#include "step/transformers/sharder.h"

namespace plimsoll::step::transformers {

class Zero final : public Sharder {
 public:
  Zero(Model& model, Tape& tape);
  void build() override;
  void begin_micro_batch(bool first, bool last) override;
  void end_backward(bool last) override;
  void before_step() override;
  void after_step() override;
  void drop_gradients() override;
  [[nodiscard]] std::vector<Updated> updated() const override;
  void gradient_ready(std::int32_t weight) override;
  [[nodiscard]] bool follows_gradients() const override { return stage_ > 0 && !bf16_optimizer_; }
  [[nodiscard]] bool makes_states_early() const override { return true; }
  void before_states() override;
  void after_states() override;
  [[nodiscard]] std::int64_t host_bytes() const override;
  [[nodiscard]] std::int64_t nvme_bytes() const override;

  void before_forward(std::int64_t unit) override;
  void after_forward(std::int64_t unit) override;
  void before_backward(std::int64_t unit) override;
  void after_backward(std::int64_t unit) override;

 private:
  struct Unit {
    std::int64_t id = 0;
    std::vector<std::int32_t> weights;
    std::int64_t elements = 0;
  };
  [[nodiscard]] std::int64_t partition() const;         // elements of this rank, padded
  [[nodiscard]] std::int64_t optimizer_on_gpu() const;  // of them, with states on the GPU
  void fetch(const Unit& unit);
  void prefetch();
  void release_unused(const Unit& unit);
  void enter(std::int64_t unit);
  void leave(std::int64_t unit);
  [[nodiscard]] bool persists(const Weight& weight) const;

  Model& m_;
  Tape& tape_;
  int stage_ = 0;
  bool bf16_optimizer_ = false;  // fp32 gradient buffer of the whole model
  std::int64_t ranks_ = 1;
  std::int64_t width_ = 2;
  std::int64_t trained_ = 0;  // elements
  std::vector<Tensor> held_;  // flat buffers that stay
  Tensor states_gradient_, partition_gradient_, step_gradient_;
  std::vector<Tensor> buckets_;
  std::int64_t filled_ = 0;  // elements in the current bucket
  // Stage 3
  std::vector<Unit> units_;         // in forward order
  std::vector<std::size_t> trace_;  // units of a step, forward then backward
  std::size_t position_ = 0;
  bool traced_ = false;
  std::vector<Tensor> gathered_;  // by weight
};

}  // namespace plimsoll::step::transformers
