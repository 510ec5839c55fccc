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

// Muon is for the matrices of layers; embeddings, the head and vectors are AdamW's.
bool is_orthogonalised(const Updated& t) { return t.columns > 0 && t.kind == WeightKind::kMatrix; }

}  // namespace

OptimizerStates::OptimizerStates(const job::Job& job, std::vector<Updated> tensors)
    : job_(job), tensors_(std::move(tensors)) {}

void OptimizerStates::make_states(Tape& tape, const Updated& t) {
  const job::Optimizer& o = job_.optimizer;
  const auto keep = [&](std::int64_t bytes) { states_.push_back(tape.alloc(bytes, Name::kMoment)); };
  switch (o.kind) {
    case job::OptimizerKind::kMuon:
      if (is_orthogonalised(t)) {
        keep(t.width * t.elements);
        return;
      }
      [[fallthrough]];  // the rest is AdamW's
    case job::OptimizerKind::kAdam:
      if (o.impl == job::OptimizerImpl::kFused) keep(4);  // step counter on the GPU
      keep(t.width * t.elements);
      keep(t.width * t.elements);
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

void OptimizerStates::torch_adam(Tape& tape, Tensors of) {
  const job::Optimizer& o = job_.optimizer;
  if (o.impl == job::OptimizerImpl::kFused) return;
  if (o.impl == job::OptimizerImpl::kForeach) {
    // Square roots of all second moments at once.
    std::vector<Tensor> roots;
    roots.reserve(of.size());
    for (const Updated& t : of) roots.push_back(tape.alloc(t.width * t.elements, Name::kOptimizerTemp));
    for (Tensor& root : roots) tape.free(root);
    return;
  }
  for (const Updated& t : of) {
    Tensor root = tape.alloc(t.width * t.elements, Name::kOptimizerTemp);
    Tensor scaled = tape.alloc(t.width * t.elements, Name::kOptimizerTemp);
    tape.free(root);
    tape.free(scaled);
  }
}

// Loops over tensors in fp32. The loop's variables keep the last tensor's copies until the next replaces
// them (facts other-frameworks-memory.md 2.8).
void OptimizerStates::adafactor(Tape& tape, Tensors of, bool makes) {
  Tensor grad, param, update;
  const auto assign = [&](Tensor& variable, Tensor value) {
    tape.free(variable);
    variable = value;
  };
  for (const Updated& t : of) {
    const std::int64_t bytes = 4 * t.elements;
    if (t.width < 4) assign(grad, tape.alloc(bytes, Name::kOptimizerTemp));
    if (makes) make_states(tape, t);
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

// torch.optim.Muon, matrix by matrix: five Newton-Schulz iterations in bf16, each of a Gram matrix of the shorter side,
// a polynomial of it and the next iterate. Variables keep their last value until the next is made
// (facts other-frameworks-memory.md 2.8).
void OptimizerStates::muon(Tape& tape, Tensors of) {
  constexpr int kIterations = 5;
  constexpr std::int64_t kWidth = 2;
  Tensor result;
  const auto assign = [&](Tensor& variable, std::int64_t bytes) {
    Tensor value = tape.alloc(bytes, Name::kOptimizerTemp);
    tape.free(variable);
    variable = value;
  };
  for (const Updated& t : of) {
    if (!is_orthogonalised(t)) continue;
    Tensor update = tape.alloc(t.width * t.elements, Name::kOptimizerTemp);
    tape.free(result);
    const std::int64_t side = std::min(t.rows, t.columns);
    Tensor iterate, gram, polynomial;
    if (t.width != kWidth) iterate = tape.alloc(kWidth * t.elements, Name::kOptimizerTemp);
    for (int i = 0; i < kIterations; ++i) {
      assign(gram, kWidth * side * side);
      assign(polynomial, kWidth * side * side);
      assign(iterate, kWidth * t.elements);
    }
    tape.free(gram);
    tape.free(polynomial);
    tape.free(update);
    result = iterate;
  }
  tape.free(result);
}

void OptimizerStates::run(Tape& tape, Tensors of, bool makes) {
  const job::OptimizerKind kind = job_.optimizer.kind;
  if (kind == job::OptimizerKind::kAdafactor) {
    adafactor(tape, of, makes);
  } else if (job_.optimizer.projection_rank > 0) {
    project(tape, of, makes);
  } else if (kind == job::OptimizerKind::kMuon) {
    const auto make = [&](bool orthogonalised) {
      for (const Updated& t : of)
        if (makes && is_orthogonalised(t) == orthogonalised) make_states(tape, t);
    };
    make(true);
    muon(tape, of);
    make(false);
  } else {
    if (makes)
      for (const Updated& t : of) make_states(tape, t);
    if (kind == job::OptimizerKind::kAdam) torch_adam(tape, of);
  }
}

void OptimizerStates::step(Tape& tape) {
  tape.at(Operation::kAdam);
  run(tape, tensors_, !made_);
  made_ = true;
}

void OptimizerStates::load(Tape& tape) {
  tape.at(Operation::kAdam);
  if (job_.optimizer.projection_rank > 0) {
    run(tape, tensors_, true);  // what is kept of a projection is made by the projection
  } else {
    for (const Updated& tensor : tensors_) make_states(tape, tensor);
  }
  made_ = true;
  made_one_.assign(tensors_.size(), true);
}

std::int64_t OptimizerStates::state_bytes() const {
  std::int64_t sum = 0;
  for (const Tensor& state : states_) sum += state.bytes;
  return sum;
}

void OptimizerStates::step_of(Tape& tape, std::int32_t weight) {
  const auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), weight,
                       [](const Updated& tensor, std::int32_t wanted) { return tensor.weight < wanted; });
  if (found == tensors_.end() || found->weight != weight) return;
  made_one_.resize(tensors_.size());
  const auto index = static_cast<std::size_t>(found - tensors_.begin());
  const Operation operation = tape.moment().operation;
  tape.at(Operation::kAdam);
  run(tape, Tensors(tensors_).subspan(index, 1), !made_one_[index]);
  made_one_[index] = true;
  tape.at(operation);
}

}  // namespace plimsoll::step::transformers
