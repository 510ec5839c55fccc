// SPDX-License-Identifier: Apache-2.0
#include "step/schedule.h"

#include <algorithm>

#include "step/interleaved.h"

namespace plimsoll::step {

namespace {

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
  // Pipelines of two stages reach their highest point early, but where free blocks come to lie is settled later.
  constexpr std::int64_t kFewest = 8;
  return std::min(shape.micro_batches, std::max(kFewest, 3 * shape.group));
}

void run_pipeline(const PipelineShape& shape, Tape& tape, PassRunner& runner, HeldMessages& held) {
  held.chunk_input.resize(static_cast<std::size_t>(shape.chunks));
  if (shape.stages == 1) return run_alone(shape, runner);
  if (shape.chunks == 1) return run_1f1b(shape, tape, runner, held);
  run_interleaved(shape, tape, runner, held);
}

}  // namespace plimsoll::step
