// SPDX-License-Identifier: Apache-2.0
// FSDP2 (fully_shard) around the modules of a model: gather buffers, copy-outs, prefetch in backward and
// reduce-scatter, in the recorded order (facts other-frameworks-memory.md 6.1, 6.3, 6.4).
#pragma once

#include <map>
#include <vector>

#include "step/transformers/sharder.h"

namespace plimsoll::step::transformers {

class Fsdp2 final : public Sharder {
 public:
  Fsdp2(Model& model, Tape& tape);

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
    std::int64_t shard = 0;     // bytes of this rank as they are gathered, padded
    bool is_converted = false;  // a part of it to float8, which is a copy
    bool reshard = true;
    bool gathered = false;
    Tensor buffer;                               // all-gather output not yet copied out
    std::vector<Tensor> unsharded;               // parameters in full
    std::vector<Tensor> kept;                    // reshard to fewer ranks: this rank's part
    Tensor gradient;                             // sharded gradients: one buffer
    std::map<std::int32_t, Tensor> accumulated;  // unsharded gradients of micro-batches without synchronisation
  };

  Unit* find(std::int64_t id);
  void add_unit(std::int64_t id, std::vector<std::int32_t> weights, bool reshard);
  std::int64_t shard_elements(const Weight& weight) const;
  [[nodiscard]] std::int64_t gathered_width(const Weight& weight) const;
  void gather(Unit& unit);    // starts: cast shard, buffer
  void copy_out(Unit& unit);  // finishes: parameters
  void release(Unit& unit);   // reshards
  void prefetch_after(const Unit& unit);
  void cut_whole_gradients(Unit& unit);
  void reduce(Unit& unit);
  void accumulate(Unit& unit);
  void after_backward_of_stage(std::int64_t id);

  Model& m_;
  Tape& tape_;
  std::int64_t ranks_ = 1;
  std::int64_t gather_width_ = 2;
  std::int64_t reduce_width_ = 4;
  std::int64_t stored_width_ = 4;
  std::vector<Unit> units_;  // in the order in which their forward ends
  std::vector<Tensor> shards_;
  Tensor held_buffer_;   // forward: the last gather's buffer, until the next copy-out
  Tensor reduce_input_;  // until the next reduction
  std::int64_t host_bytes_ = 0;
  bool last_micro_batch_ = true;
  bool in_backward_ = false;
};

}  // namespace plimsoll::step::transformers
