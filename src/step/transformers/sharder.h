// SPDX-License-Identifier: Apache-2.0
// What a rank asks of the way its model state is held: whole, replicated (DDP), or sharded (FSDP, ZeRO).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "step/transformers/optimizer.h"
#include "step/transformers/pass.h"

namespace plimsoll::step::transformers {

class Sharder : public UnitHooks {
 public:
  // Parameters and everything that exists before the first step.
  virtual void build() = 0;
  virtual void begin_micro_batch(bool first, bool last) = 0;
  virtual void end_backward(bool last) = 0;
  // Before and after the optimizer's own work: gradient copies, parameter gathers.
  virtual void before_step() = 0;
  virtual void after_step() = 0;
  // zero_grad(set_to_none)
  virtual void drop_gradients() = 0;
  [[nodiscard]] virtual std::vector<Updated> updated() const = 0;
  // A weight's gradient is complete; only asked where follows_gradients().
  virtual void gradient_ready(std::int32_t weight) = 0;
  [[nodiscard]] virtual bool follows_gradients() const { return false; }
  // ZeRO creates the optimizer's states before the first step, with gradients of zeros.
  [[nodiscard]] virtual bool makes_states_early() const { return false; }
  virtual void before_states() {}
  virtual void after_states() {}
  // Where it is set, a weight is updated when its gradient is there, which is freed then.
  std::function<void(std::int32_t weight)> on_gradient;
  [[nodiscard]] virtual std::int64_t host_bytes() const { return 0; }
  [[nodiscard]] virtual std::int64_t nvme_bytes() const { return 0; }

  void before_forward(std::int64_t) override {}
  void after_forward(std::int64_t) override {}
  void before_backward(std::int64_t) override {}
  void after_backward(std::int64_t) override {}
};

// The sharder of the job's kind: one GPU or DDP, FSDP1, FSDP2, or ZeRO.
[[nodiscard]] std::unique_ptr<Sharder> make_sharder(Model& model, Tape& tape);

}  // namespace plimsoll::step::transformers
