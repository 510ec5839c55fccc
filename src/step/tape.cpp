// SPDX-License-Identifier: Apache-2.0
#include "step/tape.h"

namespace plimsoll::step {

void Tape::record(Tensor& tensor, std::int64_t requested) {
  tensor.id = next_id_++;
  push({tensor.bytes, requested, tensor.id, tensor.name, stream_});
}

void Tape::overflow() {
  recording_ = false;
  overflowed_ = true;
  events_ = {};
  marks_ = {};
}

void Tape::mark() {
  const auto event = static_cast<std::uint32_t>(events_.size());
  if (!marks_.empty() && marks_.back().event == event) {
    marks_.back().moment = moment_;
  } else {
    marks_.push_back({event, moment_});
  }
}

}  // namespace plimsoll::step
