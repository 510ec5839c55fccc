// SPDX-License-Identifier: Apache-2.0
// The interleaved schedule, without and with overlapped messages, and what schedules share.
#pragma once

#include <vector>

#include "step/schedule.h"

namespace plimsoll::step {

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

[[nodiscard]] inline std::vector<InputQueue> make_queues(std::vector<Tensor>& room, std::int64_t queues,
                                                         std::int64_t each) {
  room.resize(static_cast<std::size_t>(queues * each));
  std::vector<InputQueue> result;
  result.reserve(static_cast<std::size_t>(queues));
  for (std::int64_t i = 0; i < queues; ++i) result.emplace_back(room.data() + i * each);
  return result;
}

inline void release(Tape& tape, HeldMessages::Input& input) {
  tape.free(input.x);
  tape.free(input.grad);
}

void run_interleaved(const PipelineShape& shape, Tape& tape, PassRunner& runner, HeldMessages& held);

}  // namespace plimsoll::step
