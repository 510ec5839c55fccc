// SPDX-License-Identifier: Apache-2.0
// What a rank asks of its state: walked tensor by tensor, or folded into what is known of it.
// Invariant: both do the same to a tape; a property test holds the folded peak to the walked one.
#pragma once

#include <cstdint>
#include <vector>

#include "job/pipeline_layout.h"
#include "step/megatron/state.h"
#include "step/program.h"

namespace plimsoll::step::megatron {

class StateOfRank {
 public:
  virtual ~StateOfRank() = default;
  virtual void build(Tape& tape) = 0;
  virtual void begin_step(Tape& tape) = 0;
  virtual void quantise_weights(Tape& tape) = 0;
  virtual void update(Tape& tape) = 0;
  [[nodiscard]] virtual std::int64_t reduce_scratch() const = 0;
  [[nodiscard]] virtual std::int64_t moment_bytes() const = 0;
  [[nodiscard]] virtual std::int64_t parameters() const = 0;
  [[nodiscard]] virtual std::int64_t host_bytes() const = 0;
};

class WalkedState final : public StateOfRank {
 public:
  WalkedState(const job::Job& job, const std::vector<job::Chunk>& chunks, std::int64_t pp_rank)
      : state_(job, chunks, pp_rank) {}
  void build(Tape& tape) override {
    state_.build_model(tape);
    state_.wrap(tape);
    state_.build_optimizer(tape);
  }
  void begin_step(Tape& tape) override { state_.begin_step(tape); }
  void quantise_weights(Tape& tape) override { state_.quantise_weights(tape); }
  void update(Tape& tape) override { state_.update(tape); }
  [[nodiscard]] std::int64_t reduce_scratch() const override { return state_.reduce_scratch(); }
  [[nodiscard]] std::int64_t moment_bytes() const override { return state_.moment_bytes(); }
  [[nodiscard]] std::int64_t parameters() const override { return state_.parameters(); }
  [[nodiscard]] std::int64_t host_bytes() const override { return state_.host_bytes(); }

 private:
  State state_;
};

class FoldedState final : public StateOfRank {
 public:
  explicit FoldedState(const StateProfile& profile) : profile_(profile) {}
  void build(Tape& tape) override {
    tape.enter(Phase::kOptimizer);
    tape.apply(profile_.construction);
  }
  void begin_step(Tape& tape) override { tape.apply(profile_.begin[step_]); }
  void quantise_weights(Tape& tape) override { tape.apply(profile_.quantised); }
  void update(Tape& tape) override {
    tape.apply(profile_.update[step_]);
    step_ = 1;
  }
  [[nodiscard]] std::int64_t reduce_scratch() const override { return profile_.reduce_scratch; }
  [[nodiscard]] std::int64_t moment_bytes() const override { return profile_.moment_bytes; }
  [[nodiscard]] std::int64_t parameters() const override { return profile_.parameters; }
  [[nodiscard]] std::int64_t host_bytes() const override { return profile_.host_bytes; }

 private:
  StateProfile profile_;
  int step_ = 0;
};

}  // namespace plimsoll::step::megatron
