// SPDX-License-Identifier: Apache-2.0
#include "step/schedule.h"

#include <algorithm>
#include <utility>

namespace plimsoll::step {

namespace {

// First in, first out, over room that its owner made for every micro-batch.
class InputQueue {
 public:
  explicit InputQueue(Tensor* room) : next_in_(room), next_out_(room) {}
  void push(const Tensor& tensor) { *next_in_++ = tensor; }
  Tensor pop() { return *next_out_++; }
  [[nodiscard]] bool empty() const { return next_in_ == next_out_; }

 private:
  Tensor* next_in_;
  Tensor* next_out_;
};

std::vector<InputQueue> make_queues(std::vector<Tensor>& room, std::int64_t queues, std::int64_t each) {
  room.resize(static_cast<std::size_t>(queues * each));
  std::vector<InputQueue> result;
  result.reserve(static_cast<std::size_t>(queues));
  for (std::int64_t i = 0; i < queues; ++i) result.emplace_back(room.data() + i * each);
  return result;
}

void release(Tape& tape, HeldMessages::Input& input) {
  tape.free(input.x);
  tape.free(input.grad);
}

// One micro-batch at a time; nothing is sent or received.
void run_alone(const PipelineShape& shape, PassRunner& runner) {
  for (std::int64_t i = 0; i < shape.micro_batches; ++i) {
    (void)runner.forward(0, i, {});
    (void)runner.backward(0, i);
  }
}

void run_1f1b(const PipelineShape& s, Tape& tape, PassRunner& runner, HeldMessages& held) {
  const bool first = s.rank == 0;
  const bool last = s.rank == s.stages - 1;
  const std::int64_t m = s.micro_batches;
  const std::int64_t warmup = s.gpipe ? m : warmup_passes(s);
  std::vector<Tensor> room;
  std::vector<InputQueue> queues = make_queues(room, 2, m);
  InputQueue& inputs = queues[0];
  InputQueue& undropped = queues[1];                    // outputs, where they are not deallocated after the send
  HeldMessages::Input& finished = held.chunk_input[0];  // input and gradient of the pass just finished
  Tensor output_grad;

  const auto receive = [&]() -> Tensor {
    tape.at(Operation::kSendReceive);
    return first ? Tensor{} : tape.alloc(s.message, Name::kMessage);
  };
  const auto sent = [&](Tensor& output) {
    if (s.deallocates_outputs) {
      tape.free(output);
    } else {
      undropped.push(output);
    }
  };
  const auto forward = [&](std::int64_t i, const Tensor& x, bool chunk_holds_only) {
    if (chunk_holds_only) release(tape, finished);  // the chunk's reference is replaced before the pass
    Tensor output = runner.forward(0, i, x);
    tape.free(finished.x);  // its graph dies with the old output; its gradient is still a variable of the loop
    return output;
  };
  const auto backward = [&](std::int64_t i) {
    Tensor x = inputs.pop();
    Tensor grad = runner.backward(0, i);
    tape.free(finished.grad);
    finished = {x, grad};
    if (!undropped.empty()) {
      Tensor output = undropped.pop();
      tape.free(output);
    }
  };

  for (std::int64_t i = 0; i < warmup; ++i) {
    Tensor x = receive();
    Tensor output = forward(i, x, true);
    sent(output);
    inputs.push(x);
  }
  Tensor x = m > warmup ? receive() : Tensor{};
  for (std::int64_t i = 0; i + warmup < m; ++i) {
    Tensor output = forward(i + warmup, x, i == 0);
    if (!last) {
      tape.at(Operation::kSendReceive);
      Tensor next = tape.alloc(s.message, Name::kMessage);
      tape.free(output_grad);
      output_grad = next;
    }
    sent(output);
    inputs.push(x);
    backward(i);
    if (i + 1 + warmup < m) x = receive();
  }
  for (std::int64_t i = m - warmup; i < m; ++i) {
    if (!last) {
      tape.at(Operation::kSendReceive);
      Tensor next = tape.alloc(s.message, Name::kMessage);
      tape.free(output_grad);
      output_grad = next;
    }
    tape.free(finished.x);
    backward(i);
  }
  tape.free(output_grad);
}

// The order of virtual passes: groups of micro-batches cycle through the chunks.
struct Order {
  explicit Order(const PipelineShape& shape) {
    chunk_of.reserve(static_cast<std::size_t>(shape.micro_batches * shape.chunks));
    micro_batch_of.reserve(chunk_of.capacity());
    for (std::int64_t begin = 0; begin < shape.micro_batches; begin += shape.group)
      for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk)
        for (std::int64_t i = begin; i < std::min(begin + shape.group, shape.micro_batches); ++i) {
          chunk_of.push_back(static_cast<std::int32_t>(chunk));
          micro_batch_of.push_back(static_cast<std::int32_t>(i));
        }
  }
  std::vector<std::int32_t> chunk_of;
  std::vector<std::int32_t> micro_batch_of;
};

class Interleaved {
 public:
  Interleaved(const PipelineShape& shape, Tape& tape, PassRunner& runner, HeldMessages& held)
      : s_(shape),
        tape_(tape),
        runner_(runner),
        held_(held),
        order_(shape),
        total_(static_cast<std::int64_t>(order_.chunk_of.size())),
        queues_(make_queues(room_, 2 * shape.chunks, shape.micro_batches)),
        latest_(static_cast<std::size_t>(shape.chunks), -1) {}

  void run() {
    const std::int64_t warmup = warmup_passes(s_);
    Tensor overlap_buffers = s_.overlap ? tape_.alloc(2 * s_.message, Name::kMessage) : Tensor{};
    if (s_.rank > 0) receive_input(0);
    // The receive of the next pass is posted before this one, but on the stage whose messages come round the ring
    // (facts megatron-memory.md 7).
    const bool prefetches_inputs = s_.prefetches && s_.rank > 0;
    const bool prefetches_grads = s_.prefetches && s_.rank < s_.stages - 1;
    for (std::int64_t k = 0; k < warmup; ++k) {
      if (prefetches_inputs) exchange_inputs(k);
      forward(k);
      if (!prefetches_inputs) exchange_inputs(k);
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
      if (prefetches_grads) {
        Tensor used = std::exchange(held_grad_, Tensor{});
        exchange_grads(k);
        backward(k);
        tape_.free(used);
      } else {
        backward(k);
        exchange_grads(k);
      }
    }
    tape_.free(held_grad_);
    tape_.free(sent_grad_);
    tape_.free(overlap_buffers);
  }

 private:
  [[nodiscard]] std::int64_t chunk(std::int64_t k) const { return order_.chunk_of[static_cast<std::size_t>(k)]; }
  [[nodiscard]] std::int64_t micro_batch(std::int64_t k) const {
    return order_.micro_batch_of[static_cast<std::size_t>(k)];
  }
  [[nodiscard]] std::int64_t backward_chunk(std::int64_t k) const { return s_.chunks - 1 - chunk(k); }

  // Inputs that arrived and wait for their pass, and inputs of passes between forward and backward.
  InputQueue& received(std::size_t slot) { return queues_[slot]; }
  InputQueue& in_flight(std::size_t slot) { return queues_[static_cast<std::size_t>(s_.chunks) + slot]; }

  void receive_input(std::int64_t to_chunk) {
    tape_.at(Operation::kSendReceive);
    received(static_cast<std::size_t>(to_chunk)).push(tape_.alloc(s_.message, Name::kMessage));
  }

  // After forward pass k: the first stage receives what the last stage made p-1 passes earlier.
  void exchange_inputs(std::int64_t k) {
    if (k == total_ - 1) return;
    if (s_.rank == 0) {
      const std::int64_t from = k - (s_.stages - 1);
      if (from >= 0 && chunk(from) < s_.chunks - 1) receive_input(chunk(from) + 1);
    } else {
      receive_input(chunk(k + 1));
    }
  }

  void exchange_grads(std::int64_t k) {
    if (k == total_ - 1) return;
    std::int64_t to_chunk = -1;
    if (s_.rank == s_.stages - 1) {
      const std::int64_t from = k - (s_.stages - 1);
      if (from >= 0 && backward_chunk(from) > 0) to_chunk = backward_chunk(from) - 1;
    } else {
      to_chunk = backward_chunk(k + 1);
    }
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
    const std::int64_t c = chunk(k);
    const auto slot = static_cast<std::size_t>(c);
    Tensor x;
    if (!(s_.rank == 0 && c == 0)) {
      x = received(slot).pop();
      release(tape_, held_.chunk_input[slot]);
    }
    in_flight(slot).push(x);
    latest_[slot] = micro_batch(k);
    output_ = runner_.forward(c, micro_batch(k), x);
  }

  void backward(std::int64_t k) {
    const std::int64_t c = backward_chunk(k);
    const auto slot = static_cast<std::size_t>(c);
    Tensor x = in_flight(slot).pop();
    Tensor grad = runner_.backward(c, micro_batch(k));
    tape_.free(sent_grad_);
    if (latest_[slot] == micro_batch(k)) {
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

}  // namespace

std::int64_t warmup_passes(const PipelineShape& shape) {
  if (shape.stages == 1) return 0;
  if (shape.chunks == 1) return std::min(shape.stages - shape.rank - 1, shape.micro_batches);
  const std::int64_t warmup =
      2 * (shape.stages - shape.rank - 1) + (shape.chunks - 1) * shape.group + (shape.extra_warmup ? 1 : 0);
  return std::min(warmup, shape.micro_batches * shape.chunks);
}

std::int64_t micro_batches_to_simulate(const PipelineShape& shape) {
  if (shape.gpipe) return shape.micro_batches;
  if (shape.stages == 1) return std::min<std::int64_t>(shape.micro_batches, 2);
  if (shape.chunks == 1) return std::min(shape.micro_batches, shape.stages - shape.rank + 3);
  return std::min(shape.micro_batches, 3 * shape.group);
}

void run_pipeline(const PipelineShape& shape, Tape& tape, PassRunner& runner, HeldMessages& held) {
  held.chunk_input.resize(static_cast<std::size_t>(shape.chunks));
  if (shape.stages == 1) return run_alone(shape, runner);
  if (shape.chunks == 1) return run_1f1b(shape, tape, runner, held);
  Interleaved(shape, tape, runner, held).run();
}

}  // namespace plimsoll::step
