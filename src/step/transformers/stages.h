// SPDX-License-Identifier: Apache-2.0
// A pipeline rank of torchtitan: its stages' passes under the shared schedules, several micro-batches in
// flight, each with a graph of its own (facts other-frameworks-memory.md 6.4).
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "step/schedule.h"
#include "step/transformers/sharder.h"

namespace plimsoll::step::transformers {

class Stages final : public PassRunner {
 public:
  Stages(const job::Job& job, const std::vector<job::Chunk>& chunks, std::int64_t pp_rank, Tape& tape, bool folded);

  void run();
  [[nodiscard]] std::int64_t parameters() const;
  [[nodiscard]] bool trains() const;
  [[nodiscard]] std::int64_t host_bytes() const;

  Tensor forward(std::int64_t chunk, std::int64_t micro_batch, const Tensor& received) override;
  Tensor backward(std::int64_t chunk, std::int64_t micro_batch) override;

 private:
  struct Stage {
    Model model;
    std::unique_ptr<Sharder> sharder;
    std::unique_ptr<LayerProfiles> profiles;
    std::unique_ptr<OptimizerStates> optimizer;
    std::deque<std::unique_ptr<Pass>> in_flight;
  };

  Tape& tape_;
  std::vector<std::unique_ptr<Stage>> stages_;
  Workspaces workspaces_;
  PipelineShape shape_;
  std::int64_t message_ = 0;   // bytes of one hidden state
  std::int64_t received_ = 0;  // messages of a stage in one step, from either side
  HeldMessages held_;
  bool first_step_ = true;
};

}  // namespace plimsoll::step::transformers
