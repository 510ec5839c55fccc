// SPDX-License-Identifier: Apache-2.0
#include "step/transformers/stages.h"

#include <algorithm>

namespace plimsoll::step::transformers {

Stages::Stages(const job::Job& job, const std::vector<job::Chunk>& chunks, std::int64_t pp_rank, Tape& tape,
               bool folded)
    : tape_(tape) {
  for (const job::Chunk& chunk : chunks) {
    auto stage = std::make_unique<Stage>();
    stage->model = make_model(job, chunk);
    stage->sharder = make_sharder(stage->model, tape);
    if (folded && !stage->sharder->follows_gradients()) stage->profiles = std::make_unique<LayerProfiles>(stage->model);
    stage->optimizer = std::make_unique<OptimizerStates>(job, stage->sharder->updated());
    stages_.push_back(std::move(stage));
  }
  const Model& first = stages_.front()->model;
  shape_.stages = job.parallel.pipeline;
  shape_.rank = pp_rank;
  shape_.chunks = static_cast<std::int64_t>(chunks.size());
  shape_.micro_batches = std::max<std::int64_t>(1, job.micro_batches);
  shape_.group = job.parallel.microbatch_group_size.value_or(job.parallel.pipeline);
  message_ = first.residual_tokens() * job.model.hidden * first.width;
  shape_.message = 0;  // buffers of their own, below
  shape_.deallocates_outputs = false;
  shape_.gpipe = job.parallel.schedule == job::PipelineSchedule::kGpipe;
  received_ = shape_.micro_batches;
  shape_.micro_batches = micro_batches_to_simulate(shape_);
}

std::int64_t Stages::parameters() const {
  std::int64_t sum = 0;
  for (const auto& stage : stages_) sum += stage->model.parameters();
  return sum;
}

bool Stages::trains() const {
  for (const auto& stage : stages_)
    for (const Weight& weight : stage->model.weights)
      if (weight.trainable) return true;
  return false;
}

std::int64_t Stages::host_bytes() const {
  std::int64_t sum = 0;
  for (const auto& stage : stages_) sum += stage->sharder->host_bytes();
  return sum;
}

void Stages::run() {
  for (const auto& stage : stages_) {
    stage->sharder->build();
    hold_frequencies(stage->model, tape_);
  }
  // PyTorch's pipelines make a buffer for every message of a step, and keep it (torch/distributed/pipelining/stage.py).
  for (const auto& stage : stages_)
    for (std::int64_t i = 0; i < received_; ++i) {
      if (!stage->model.has_embedding) tape_.alloc(message_, Name::kMessage);
      if (!stage->model.has_loss) tape_.alloc(message_, Name::kMessage);
    }
  for (int step = 0; step < 2; ++step) {
    first_step_ = step == 0;
    tape_.enter(first_step_ ? Phase::kFirstForward : Phase::kForward);
    run_pipeline(shape_, tape_, *this, held_);
    tape_.enter(first_step_ ? Phase::kFirstUpdate : Phase::kUpdate);
    for (const auto& stage : stages_) stage->optimizer->step(tape_);
    for (const auto& stage : stages_) stage->sharder->drop_gradients();
  }
}

Tensor Stages::forward(std::int64_t chunk, std::int64_t micro_batch, const Tensor& received) {
  (void)received;  // stays the schedule's
  Stage& stage = *stages_[static_cast<std::size_t>(chunk)];
  tape_.pass(first_step_ ? Phase::kFirstForward : Phase::kForward, chunk, micro_batch);
  stage.sharder->begin_micro_batch(micro_batch == 0, micro_batch == shape_.micro_batches - 1);
  auto pass = std::make_unique<Pass>(stage.model, tape_, workspaces_, stage.sharder.get(), stage.profiles.get());
  if (stage.sharder->follows_gradients())
    pass->graph().on_gradient = [&stage](std::int32_t id) { stage.sharder->gradient_ready(id); };
  pass->load_batch();
  Tensor output = pass->forward();
  stage.in_flight.push_back(std::move(pass));
  return output;
}

Tensor Stages::backward(std::int64_t chunk, std::int64_t micro_batch) {
  Stage& stage = *stages_[static_cast<std::size_t>(chunk)];
  tape_.pass(first_step_ ? Phase::kFirstBackward : Phase::kBackward, chunk, micro_batch);
  const bool last = micro_batch == shape_.micro_batches - 1;
  stage.sharder->begin_micro_batch(micro_batch == 0, last);
  Tensor grad = stage.in_flight.front()->backward();
  stage.sharder->end_backward(last);
  stage.in_flight.front()->release();
  stage.in_flight.pop_front();
  return grad;
}

}  // namespace plimsoll::step::transformers
