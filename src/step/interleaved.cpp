// SPDX-License-Identifier: Apache-2.0
#include "step/interleaved.h"

#include <algorithm>
#include <utility>

namespace plimsoll::step {

namespace {

// The order of virtual passes: groups of micro-batches cycle through the chunks.
class Order {
 public:
  explicit Order(const PipelineShape& shape) : s_(shape) {
    chunk_of_.reserve(static_cast<std::size_t>(shape.micro_batches * shape.chunks));
    micro_batch_of_.reserve(chunk_of_.capacity());
    for (std::int64_t begin = 0; begin < shape.micro_batches; begin += shape.group)
      for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk)
        for (std::int64_t i = begin; i < std::min(begin + shape.group, shape.micro_batches); ++i) {
          chunk_of_.push_back(static_cast<std::int32_t>(chunk));
          micro_batch_of_.push_back(static_cast<std::int32_t>(i));
        }
  }
  [[nodiscard]] std::int64_t total() const { return static_cast<std::int64_t>(chunk_of_.size()); }
  [[nodiscard]] std::int64_t chunk(std::int64_t k) const { return chunk_of_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] std::int64_t micro_batch(std::int64_t k) const { return micro_batch_of_[static_cast<std::size_t>(k)]; }
  [[nodiscard]] std::int64_t backward_chunk(std::int64_t k) const { return s_.chunks - 1 - chunk(k); }

  // The chunk whose input comes after forward pass k, -1 for none: the first stage receives what the last stage made
  // p-1 passes earlier.
  [[nodiscard]] std::int64_t input_after(std::int64_t k) const {
    if (k == total() - 1) return -1;
    if (s_.rank > 0) return chunk(k + 1);
    const std::int64_t from = k - (s_.stages - 1);
    return from >= 0 && chunk(from) < s_.chunks - 1 ? chunk(from) + 1 : -1;
  }
  // The chunk whose gradient comes after backward pass k; k = -1: before the first.
  [[nodiscard]] std::int64_t grad_after(std::int64_t k) const {
    if (k == total() - 1) return -1;
    if (s_.rank < s_.stages - 1) return backward_chunk(k + 1);
    const std::int64_t from = k - (s_.stages - 1);
    return from >= 0 && backward_chunk(from) > 0 ? backward_chunk(from) - 1 : -1;
  }

 private:
  const PipelineShape& s_;
  std::vector<std::int32_t> chunk_of_;
  std::vector<std::int32_t> micro_batch_of_;
};

class Interleaved {
 public:
  Interleaved(const PipelineShape& shape, Tape& tape, PassRunner& runner, HeldMessages& held)
      : s_(shape),
        tape_(tape),
        runner_(runner),
        held_(held),
        order_(shape),
        total_(order_.total()),
        queues_(make_queues(room_, 2 * shape.chunks, shape.micro_batches)),
        latest_(static_cast<std::size_t>(shape.chunks), -1) {}

  // Messages are exchanged between passes: forward, backward, then both messages at once.
  void run() {
    const std::int64_t warmup = warmup_passes(s_);
    if (s_.rank > 0) receive_input(0);
    for (std::int64_t k = 0; k < warmup; ++k) {
      forward(k);
      exchange_inputs(k);
      if (k == warmup - 1 && warmup < total_) exchange_grads(-1);
      tape_.free(output_);
    }
    if (warmup == 0 && s_.rank < s_.stages - 1) exchange_grads(-1);
    for (std::int64_t k = 0; k + warmup < total_; ++k) {
      forward(k + warmup);
      backward(k);
      exchange_inputs(k + warmup);
      exchange_grads(k);
      tape_.free(output_);
    }
    tape_.free(held_grad_);
    for (std::int64_t k = total_ - warmup; k < total_; ++k) {
      if (warmup == total_ && k == 0) exchange_grads(-1);
      backward(k);
      exchange_grads(k);
    }
    tape_.free(held_grad_);
    tape_.free(sent_grad_);
  }

 private:
  // Inputs that arrived and wait for their pass, and inputs of passes between forward and backward.
  InputQueue& received(std::size_t slot) { return queues_[slot]; }
  InputQueue& in_flight(std::size_t slot) { return queues_[static_cast<std::size_t>(s_.chunks) + slot]; }

  void receive_input(std::int64_t to_chunk) {
    tape_.at(Operation::kSendReceive);
    received(static_cast<std::size_t>(to_chunk)).push(tape_.alloc(s_.message, Name::kMessage));
  }

  void exchange_inputs(std::int64_t k) {
    const std::int64_t to_chunk = order_.input_after(k);
    if (to_chunk >= 0) receive_input(to_chunk);
  }

  void exchange_grads(std::int64_t k) {
    if (k == total_ - 1) return;
    const std::int64_t to_chunk = order_.grad_after(k);
    if (to_chunk < 0) {
      tape_.free(held_grad_);
      return;
    }
    tape_.at(Operation::kSendReceive);
    Tensor grad = tape_.alloc(s_.message, Name::kMessage);
    tape_.free(held_grad_);
    held_grad_ = grad;  // used by a later backward, and held by the loop until the next exchange
  }

  void forward(std::int64_t k) {
    const std::int64_t c = order_.chunk(k);
    const auto slot = static_cast<std::size_t>(c);
    Tensor x;
    if (!(s_.rank == 0 && c == 0)) {
      x = received(slot).pop();
      release(tape_, held_.chunk_input[slot]);
    }
    in_flight(slot).push(x);
    latest_[slot] = order_.micro_batch(k);
    output_ = runner_.forward(c, order_.micro_batch(k), x);
  }

  void backward(std::int64_t k) {
    const std::int64_t c = order_.backward_chunk(k);
    const auto slot = static_cast<std::size_t>(c);
    Tensor x = in_flight(slot).pop();
    Tensor grad = runner_.backward(c, order_.micro_batch(k));
    tape_.free(sent_grad_);
    if (latest_[slot] == order_.micro_batch(k)) {
      held_.chunk_input[slot] = {x, grad};
    } else {
      tape_.free(x);
      sent_grad_ = grad;
    }
  }

  const PipelineShape& s_;
  Tape& tape_;
  PassRunner& runner_;
  HeldMessages& held_;
  Order order_;
  std::int64_t total_;
  std::vector<Tensor> room_;
  std::vector<InputQueue> queues_;
  std::vector<std::int64_t> latest_;  // micro-batch of each chunk's last forward
  Tensor output_;
  Tensor held_grad_;
  Tensor sent_grad_;
};

// With overlapped messages an input is received while the backward of the same iteration runs, and a gradient is gone
// when its backward has returned. What variables of Megatron's loop still hold is held here: the last input received in
// the warm-up and its gradient, to the end; the gradient that was sent, through the next iteration; the first gradient
// received, until the next one (core/pipeline_parallel/schedules.py; histories of both ranks of a pipeline of two).
class Overlapped {
 public:
  Overlapped(const PipelineShape& shape, Tape& tape, PassRunner& runner, HeldMessages& held)
      : s_(shape),
        tape_(tape),
        runner_(runner),
        held_(held),
        order_(shape),
        inputs_(make_queues(input_room_, 2 * shape.chunks, shape.micro_batches)),
        grads_(make_queues(grad_room_, shape.chunks, shape.micro_batches)),
        latest_(static_cast<std::size_t>(shape.chunks), -1) {}

  void run() {
    const std::int64_t warmup = warmup_passes(s_);
    const std::int64_t total = order_.total();
    if (s_.rank > 0) receive_input(0, 0);
    // overlap_p2p_comm_warmup_flush: the next message is awaited before the pass, but on the stage whose messages come
    // round the ring (facts megatron-memory.md 7).
    const bool early_inputs = s_.prefetches && s_.rank > 0;
    const bool early_grads = s_.prefetches && s_.rank < s_.stages - 1;
    for (std::int64_t k = 0; k < warmup; ++k) {
      if (early_inputs) receive_input(order_.input_after(k), k + 1);
      forward(k);
      if (!early_inputs) receive_input(order_.input_after(k), k + 1);
      tape_.free(output_);
    }
    if (!s_.prefetches && warmup > 0) kept_number_ = last_received_;
    if (warmup < total) receive_grad(order_.grad_after(-1), true);
    for (std::int64_t k = 0; k + warmup < total; ++k) {
      tape_.free(output_);
      forward(k + warmup);
      receive_input(order_.input_after(k + warmup), -1);
      const Sent sent = backward(k);
      receive_grad(order_.grad_after(k), false);
      replace(sent);
    }
    tape_.free(output_);
    if (warmup == total) receive_grad(order_.grad_after(-1), false);
    for (std::int64_t k = total - warmup; k < total; ++k) {
      Tensor early = early_grads ? message(order_.grad_after(k)) : Tensor{};
      replace(backward(k));
      if (!early_grads) receive_grad(order_.grad_after(k), !s_.prefetches);
      if (early) grads_[static_cast<std::size_t>(order_.grad_after(k))].push({early, false});
    }
    drop_variable();
    replace({});
    release(tape_, kept_);
  }

 private:
  // The gradient that the loop holds: its own, or that of a chunk's held input.
  struct Sent {
    Tensor grad;
    std::int64_t slot = -1;
  };
  struct Input {
    Tensor x;
    std::int64_t number = -1;
  };
  struct Arrived {
    Tensor grad;
    bool held = false;  // by the variable, which frees it
  };

  Queue<Input>& in_flight(std::size_t slot) { return inputs_[static_cast<std::size_t>(s_.chunks) + slot]; }

  Tensor message(std::int64_t to_chunk) {
    if (to_chunk < 0) return {};
    tape_.at(Operation::kSendReceive);
    return tape_.alloc(s_.message, Name::kMessage);
  }

  // `number` counts the messages of the warm-up; -1 after it.
  void receive_input(std::int64_t to_chunk, std::int64_t number) {
    Tensor x = message(to_chunk);
    if (x) inputs_[static_cast<std::size_t>(to_chunk)].push({x, number});
    last_received_ = x ? number : -1;
  }

  // A variable holds the gradient that came last beyond its backward, where `held` says so.
  void receive_grad(std::int64_t to_chunk, bool held) {
    Tensor grad = message(to_chunk);
    drop_variable();
    if (!grad) return;
    Arrived& arrived = grads_[static_cast<std::size_t>(to_chunk)].push({grad, held});
    if (!held) return;
    variable_ = grad;
    waits_ = &arrived;
  }

  // What it held goes with it, unless its backward is still to come.
  void drop_variable() {
    if (waits_ != nullptr) {
      waits_->held = false;
      waits_ = nullptr;
      variable_ = {};
    }
    tape_.free(variable_);
  }

  void forward(std::int64_t k) {
    const std::int64_t c = order_.chunk(k);
    const auto slot = static_cast<std::size_t>(c);
    Input x;
    if (!(s_.rank == 0 && c == 0)) {
      x = inputs_[slot].pop();
      HeldMessages::Input& held = held_.chunk_input[slot];
      if (sent_.slot == c) sent_ = {std::exchange(held.grad, Tensor{}), -1};
      release(tape_, held);
    }
    in_flight(slot).push(x);
    latest_[slot] = order_.micro_batch(k);
    output_ = runner_.forward(c, order_.micro_batch(k), x.x);
  }

  Sent backward(std::int64_t k) {
    const std::int64_t c = order_.backward_chunk(k);
    const auto slot = static_cast<std::size_t>(c);
    Input x = in_flight(slot).pop();
    Tensor grad = runner_.backward(c, order_.micro_batch(k));
    Sent sent;
    if (x.x && x.number >= 0 && x.number == kept_number_) {
      kept_ = {x.x, grad};
    } else if (latest_[slot] == order_.micro_batch(k)) {
      held_.chunk_input[slot] = {x.x, grad};
      sent.slot = c;
    } else {
      tape_.free(x.x);
      sent.grad = grad;
    }
    if (!grads_[slot].empty()) {
      Arrived used = grads_[slot].pop();
      if (used.held) {
        waits_ = nullptr;
      } else {
        tape_.free(used.grad);
      }
    }
    return sent;
  }

  void replace(Sent sent) {
    tape_.free(sent_.grad);
    sent_ = sent;
  }

  const PipelineShape& s_;
  Tape& tape_;
  PassRunner& runner_;
  HeldMessages& held_;
  Order order_;
  std::vector<Input> input_room_;
  std::vector<Arrived> grad_room_;
  std::vector<Queue<Input>> inputs_;   // arrived, by chunk; then those of passes between forward and backward
  std::vector<Queue<Arrived>> grads_;  // arrived, by chunk
  std::vector<std::int64_t> latest_;   // micro-batch of each chunk's last forward
  Tensor output_;
  Tensor variable_;           // the gradient that a buffer or a variable of the loop holds until the next has come
  Arrived* waits_ = nullptr;  // that gradient, while its backward is still to come
  Sent sent_;
  HeldMessages::Input kept_;
  std::int64_t last_received_ = -1;
  std::int64_t kept_number_ = -1;  // of the input that is held to the end
};

}  // namespace

void run_interleaved(const PipelineShape& shape, Tape& tape, PassRunner& runner, HeldMessages& held) {
  if (shape.overlap) return Overlapped(shape, tape, runner, held).run();
  Interleaved(shape, tape, runner, held).run();
}

}  // namespace plimsoll::step
