// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/optimizer.h"

#include <algorithm>

#include "base/checked.h"
#include "step/transformers/reduce.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kBlock8bit = 256;      // elements per fp32 scale
constexpr std::int64_t kSmallest8bit = 4096;  // fewer elements keep 32-bit states
constexpr std::int64_t kMultiprocessors = 132;
constexpr std::int64_t kSmallestPaged = 100'000;  // fewer elements are not paged

}  // namespace

OptimizerStates::OptimizerStates(const job::Job& job, std::vector<Updated> tensors)
    : job_(job), tensors_(std::move(tensors)) {}

void OptimizerStates::make_states(Tape& tape, const Updated& t) {
  const job::Optimizer& o = job_.optimizer;
  const auto keep = [&](std::int64_t bytes) { states_.push_back(tape.alloc(bytes, Name::kMoment)); };
  switch (o.kind) {
    case job::OptimizerKind::kAdam:
    case job::OptimizerKind::kMuon:
      if (o.impl == job::OptimizerImpl::kFused) keep(4);  // step counter on the GPU
      keep(t.width * t.elements);
      if (o.kind == job::OptimizerKind::kAdam || t.columns == 0) keep(t.width * t.elements);
      return;
    case job::OptimizerKind::kLion:
      keep(t.width * t.elements);
      return;
    case job::OptimizerKind::kSgd:
      if (o.momentum) keep(t.width * t.elements);
      return;
    case job::OptimizerKind::kAdafactor:
      if (t.columns > 0) {
        keep(4 * t.rows);
        keep(4 * t.columns);
      } else {
        keep(4 * t.elements);
      }
      return;
    case job::OptimizerKind::kAdam8bit: {
      // Trainer keeps embeddings in 32 bits.
      const bool small = t.elements < kSmallest8bit || t.kind == WeightKind::kEmbedding;
      const bool paged = o.paged && t.elements >= kSmallestPaged;
      const std::int64_t bytes = small ? 4 * t.elements : t.elements;
      for (int moment = 0; moment < 2; ++moment) {
        if (paged) {
          outside_ += bytes;
        } else {
          keep(bytes);
        }
        if (!small) keep(4 * ceil_div(t.elements, kBlock8bit));
      }
      return;
    }
  }
}

void OptimizerStates::torch_adam(Tape& tape) {
  const job::Optimizer& o = job_.optimizer;
  if (o.impl == job::OptimizerImpl::kFused) return;
  if (o.impl == job::OptimizerImpl::kForeach) {
    // Square roots of all second moments at once.
    std::vector<Tensor> roots;
    roots.reserve(tensors_.size());
    for (const Updated& t : tensors_) roots.push_back(tape.alloc(t.width * t.elements, Name::kOptimizerTemp));
    for (Tensor& root : roots) tape.free(root);
    return;
  }
  for (const Updated& t : tensors_) {
    Tensor root = tape.alloc(t.width * t.elements, Name::kOptimizerTemp);
    Tensor scaled = tape.alloc(t.width * t.elements, Name::kOptimizerTemp);
    tape.free(root);
    tape.free(scaled);
  }
}

// Loops over tensors in fp32. The loop's variables keep the last tensor's copies until the next replaces
// them (facts other-frameworks-memory.md 2.8).
void OptimizerStates::adafactor(Tape& tape) {
  Tensor grad, param, update;
  const auto assign = [&](Tensor& variable, Tensor value) {
    tape.free(variable);
    variable = value;
  };
  for (const Updated& t : tensors_) {
    const std::int64_t bytes = 4 * t.elements;
    if (t.width < 4) assign(grad, tape.alloc(bytes, Name::kOptimizerTemp));
    if (!made_) make_states(tape, t);
    if (t.width < 4) assign(param, tape.alloc(bytes, Name::kOptimizerTemp));
    Tensor square = tape.alloc(bytes, Name::kOptimizerTemp);
    Tensor shifted = tape.alloc(bytes, Name::kOptimizerTemp);
    tape.free(square);
    assign(update, shifted);
    if (t.columns > 0) {
      tape.touch(4 * t.rows, Name::kOptimizerTemp);
      const ReduceScratch scratch = outer_reduce_scratch(t.columns, t.rows, kMultiprocessors);
      tape.touch(scratch.partials, Name::kOptimizerTemp);
    }
    assign(update, tape.alloc(bytes, Name::kOptimizerTemp));
  }
  tape.free(grad);
  tape.free(param);
  tape.free(update);
}

void OptimizerStates::step(Tape& tape) {
  tape.at(Operation::kAdam);
  const job::OptimizerKind kind = job_.optimizer.kind;
  if (kind == job::OptimizerKind::kAdafactor) {
    adafactor(tape);
  } else {
    if (!made_)
      for (const Updated& t : tensors_) make_states(tape, t);
    if (kind == job::OptimizerKind::kAdam) torch_adam(tape);
  }
  made_ = true;
}

}  // namespace plimsoll::step::transformers
