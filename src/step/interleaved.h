// SPDX-License-Identifier: Apache-2.0
// The interleaved schedule, without and with overlapped messages, and what schedules share.
#pragma once

#include <vector>

#include "step/schedule.h"

namespace plimsoll::step {

// First in, first out, over room that its owner made for every micro-batch.
template <class Item>
class Queue {
 public:
  explicit Queue(Item* room) : next_in_(room), next_out_(room) {}
  Item& push(const Item& item) { return *next_in_++ = item; }  // stays where it is
  Item pop() { return *next_out_++; }
  [[nodiscard]] bool empty() const { return next_in_ == next_out_; }

 private:
  Item* next_in_;
  Item* next_out_;
};
using InputQueue = Queue<Tensor>;

template <class Item>
[[nodiscard]] std::vector<Queue<Item>> make_queues(std::vector<Item>& room, std::int64_t queues, std::int64_t each) {
  room.resize(static_cast<std::size_t>(queues * each));
  std::vector<Queue<Item>> result;
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
