// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/rank.h"

#include <algorithm>

#include "step/transformers/optimizer.h"
#include "step/transformers/pass.h"

namespace plimsoll::step::transformers {

namespace {

class Rank {
 public:
  Rank(const job::Job& job, Tape& tape, bool folded)
      : job_(job), tape_(tape), model_(make_model(job)), pass_(model_, tape, workspaces_, nullptr, folded) {
    std::vector<Updated> updated;
    for (const Weight& w : model_.weights) {
      if (!w.trainable) continue;
      updated.push_back({w.elements, w.rows, w.kind == WeightKind::kVector ? 0 : w.elements / std::max<std::int64_t>(1, w.rows),
                         w.width, w.kind});
    }
    optimizer_.emplace_back(job, std::move(updated));
  }

  RankResult run() {
    build();
    const std::int64_t micro_batches = std::min<std::int64_t>(2, std::max<std::int64_t>(1, job_.micro_batches));
    for (int step = 0; step < 2; ++step) {
      for (std::int64_t i = 0; i < micro_batches; ++i) {
        tape_.pass(step == 0 ? Phase::kFirstForward : Phase::kForward, 0, i);
        pass_.load_batch();
        pass_.forward();
        tape_.pass(step == 0 ? Phase::kFirstBackward : Phase::kBackward, 0, i);
        pass_.backward(i > 0);
      }
      tape_.enter(step == 0 ? Phase::kFirstUpdate : Phase::kUpdate);
      optimizer_[0].step(tape_);
      for (Weight& w : model_.weights) tape_.free(w.grad);
    }
    RankResult result;
    result.parameters = model_.parameters();
    return result;
  }

 private:
  void build() {
    tape_.enter(Phase::kModel);
    tape_.at(Operation::kBuild);
    for (Weight& w : model_.weights) {
      if (w.kind == WeightKind::kAdapter) continue;
      w.memory = tape_.alloc(w.elements * w.width, w.trainable ? Name::kWeight : Name::kFrozenWeight);
    }
    // The head is created as a weight of its own before it is tied to the embedding.
    if (model_.tied) {
      const Weight& w = model_.weights[static_cast<std::size_t>(model_.embedding)];
      tape_.touch(w.elements * w.width, Name::kConstruction);
    }
    for (Weight& w : model_.weights)
      if (w.kind == WeightKind::kAdapter) w.memory = tape_.alloc(w.elements * w.width, Name::kAdapterWeight);
  }

  const job::Job& job_;
  Tape& tape_;
  Model model_;
  Workspaces workspaces_;
  Pass pass_;
  std::vector<OptimizerStates> optimizer_;
};

}  // namespace

RankResult run_rank(const job::Job& job, Tape& tape, bool folded) {
  Rank rank(job, tape, folded);
  return rank.run();
}

}  // namespace plimsoll::step::transformers
