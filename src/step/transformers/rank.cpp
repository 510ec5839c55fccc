// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/rank.h"

#include <algorithm>
#include <memory>

#include "step/transformers/fsdp.h"
#include "step/transformers/optimizer.h"
#include "step/transformers/pass.h"

namespace plimsoll::step::transformers {

namespace {

constexpr std::int64_t kEvaluatedBatches = 8;  // more are summed up

// Trainable weights as they are, for optimizers without sharding.
std::vector<Updated> whole_weights(const Model& model) {
  std::vector<Updated> list;
  for (const Weight& w : model.weights) {
    if (!w.trainable) continue;
    const std::int64_t rows = std::max<std::int64_t>(1, w.rows);
    list.push_back({w.elements, rows, w.kind == WeightKind::kVector ? 0 : w.elements / rows, w.width, w.kind});
  }
  return list;
}

class Rank {
 public:
  Rank(const job::Job& job, Tape& tape, bool folded) : job_(job), tape_(tape), model_(make_model(job)) {
    if (job.sharding.kind == job::ShardingKind::kFsdp2) fsdp_ = std::make_unique<Fsdp2>(model_, tape);
    pass_ = std::make_unique<Pass>(model_, tape, workspaces_, fsdp_.get(), folded);
    optimizer_ = std::make_unique<OptimizerStates>(job, fsdp_ != nullptr ? fsdp_->updated() : whole_weights(model_));
  }

  RankResult run() {
    build();
    const std::int64_t micro_batches = std::min<std::int64_t>(2, std::max<std::int64_t>(1, job_.micro_batches));
    for (int step = 0; step < 2; ++step) {
      for (std::int64_t i = 0; i < micro_batches; ++i) {
        if (fsdp_ != nullptr) fsdp_->set_micro_batch(i == 0, i == micro_batches - 1);
        tape_.pass(step == 0 ? Phase::kFirstForward : Phase::kForward, 0, i);
        pass_->load_batch();
        pass_->forward();
        tape_.pass(step == 0 ? Phase::kFirstBackward : Phase::kBackward, 0, i);
        pass_->backward();
      }
      tape_.enter(step == 0 ? Phase::kFirstUpdate : Phase::kUpdate);
      optimizer_->step(tape_);
      zero_grad();
    }
    evaluate();
    RankResult result;
    result.parameters = model_.parameters();
    result.outside_bytes = optimizer_->outside_bytes();
    if (fsdp_ != nullptr) result.host_bytes += fsdp_->host_bytes();
    return result;
  }

 private:
  void build() {
    tape_.enter(Phase::kModel);
    tape_.at(Operation::kBuild);
    if (fsdp_ != nullptr) {
      fsdp_->build();
      return;
    }
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

  // Logits of evaluated batches stay on the GPU until the phase ends (facts other-frameworks-memory.md 2.9).
  void evaluate() {
    const job::Batch& b = job_.batch;
    if (b.eval_micro_batch <= 0 || b.eval_seq_length <= 0) return;
    tape_.enter(Phase::kEvaluation);
    model_.batch = b.eval_micro_batch;
    model_.sequence = b.eval_seq_length;
    const bool keeps = b.eval_batches_kept > 0;
    std::vector<Tensor> kept;
    const std::int64_t run = std::clamp<std::int64_t>(b.eval_batches_kept, 2, kEvaluatedBatches);
    for (std::int64_t i = 0; i < run; ++i) {
      if (keeps && i + 1 == run && b.eval_batches_kept > run) {
        // Batches between the first and the last only leave their logits behind.
        const std::int64_t between = b.eval_batches_kept - run;
        kept.push_back(tape_.alloc(between * kept.front().bytes, Name::kEvalLogits));
      }
      pass_->evaluate(!keeps, keeps ? &kept : nullptr, b.eval_logits_fp32);
    }
    for (Tensor& logits : kept) tape_.free(logits);
    pass_->end_evaluation();
    model_.batch = b.micro_batch;
    model_.sequence = b.seq_length / std::max<std::int64_t>(1, job_.parallel.context);
  }

  void zero_grad() {
    if (fsdp_ != nullptr) return fsdp_->drop_gradients();
    for (Weight& w : model_.weights) tape_.free(w.grad);
  }

  const job::Job& job_;
  Tape& tape_;
  Model model_;
  Workspaces workspaces_;
  std::unique_ptr<Fsdp2> fsdp_;
  std::unique_ptr<Pass> pass_;
  std::unique_ptr<OptimizerStates> optimizer_;
};

}  // namespace

RankResult run_rank(const job::Job& job, Tape& tape, bool folded) {
  Rank rank(job, tape, folded);
  return rank.run();
}

}  // namespace plimsoll::step::transformers
