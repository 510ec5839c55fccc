// SPDX-License-Identifier: Apache-2.0
// FSDP1: the parameters of a unit are one flat tensor, sharded evenly (facts other-frameworks-memory.md 6.2).
#pragma once

#include <vector>

#include "step/transformers/sharder.h"

namespace plimsoll::step::transformers {

class Fsdp1 final : public Sharder {
 public:
  Fsdp1(Model& model, Tape& tape);
  void build() override;
  void begin_micro_batch(bool first, bool last) override;
  void end_backward(bool) override {}
  void before_step() override {}
  void after_step() override {}
  void drop_gradients() override;
  [[nodiscard]] std::vector<Updated> updated() const override;
  void gradient_ready(std::int32_t) override {}
  [[nodiscard]] std::int64_t host_bytes() const override { return host_bytes_; }

  void before_forward(std::int64_t unit) override;
  void after_forward(std::int64_t unit) override;
  void before_backward(std::int64_t unit) override;
  void after_backward(std::int64_t unit) override;

 private:
  struct Unit {
    std::int64_t id = 0;
    std::vector<std::int32_t> weights;
    std::int64_t elements = 0;  // padded to a multiple of the ranks
    Tensor shard, flat, gradient, unsharded_gradient;
  };
  Unit* find(std::int64_t id);
  void gather(Unit& unit);
  void reduce(Unit& unit);

  Model& m_;
  Tape& tape_;
  std::int64_t ranks_ = 1;
  std::int64_t gather_width_ = 2;
  std::int64_t reduce_width_ = 2;
  std::int64_t stored_width_ = 4;
  std::vector<Unit> units_;  // layers, then the root
  std::int64_t host_bytes_ = 0;
  bool started_ = false;
  bool synchronises_ = true;
};

}  // namespace plimsoll::step::transformers
