// SPDX-License-Identifier: Apache-2.0
#include "step/program.h"

#include <algorithm>
#include <optional>

#include "step/megatron/rank.h"
#include "step/megatron/state.h"
#include "step/schedule.h"
#include "step/transformers/rank.h"

namespace plimsoll::step {

StateProfile profile_state(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank) {
  megatron::State state(job, layout.ranks[static_cast<std::size_t>(pp_rank)], pp_rank);
  StateProfile profile;
  Tape tape;
  const auto taken = [&tape] {
    const Profile piece = tape.profile();
    tape.reset();
    return piece;
  };
  state.build_model(tape);
  state.wrap(tape);
  state.build_optimizer(tape);
  profile.construction = taken();
  for (const int step : {0, 1}) {
    state.begin_step(tape);
    profile.begin[step] = taken();
    if (step == 0) {
      state.quantise_weights(tape);
      profile.quantised = taken();
    }
    state.update(tape);
    profile.update[step] = taken();
  }
  profile.reduce_scratch = state.reduce_scratch();
  profile.moment_bytes = state.moment_bytes();
  profile.parameters = state.parameters();
  profile.host_bytes = state.host_bytes();
  return profile;
}

RankResult run_rank(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank, Tape& tape,
                    bool folded) {
  if (job.is_megatron()) return megatron::run_rank(job, layout, pp_rank, tape, folded);
  transformers::RankResult result = transformers::run_rank(job, tape, folded, pp_rank);
  return {result.parameters,    result.host_bytes, result.rank0_bytes,        result.nvme_bytes,
          result.outside_bytes, result.trains,     std::move(result.warnings)};
}

std::int64_t layer_passes(const job::Job& job, const job::PipelineLayout& layout, std::int64_t pp_rank) {
  std::int64_t layers = 0;
  const std::vector<job::Chunk>& chunks = layout.ranks[static_cast<std::size_t>(pp_rank)];
  for (const job::Chunk& chunk : chunks) layers += chunk.num_layers + chunk.mtp_layers;
  PipelineShape shape;
  shape.stages = job.parallel.pipeline;
  shape.rank = pp_rank;
  shape.chunks = static_cast<std::int64_t>(chunks.size());
  shape.micro_batches = std::max<std::int64_t>(1, job.micro_batches);
  shape.group = job.parallel.microbatch_group_size.value_or(job.parallel.pipeline);
  shape.gpipe = job.parallel.schedule == job::PipelineSchedule::kGpipe;
  constexpr std::int64_t kSteps = 2;
  constexpr std::int64_t kDirections = 2;
  return kSteps * kDirections * layers * micro_batches_to_simulate(shape);
}

struct Known::Profiles {
  megatron::ProfileStore megatron;
};

Known::Known() : profiles_(std::make_unique<Profiles>()) {}
Known::~Known() = default;
Known::Known(Known&&) noexcept = default;
Known& Known::operator=(Known&&) noexcept = default;

Need worst_need(const job::Job& job, const job::PipelineLayout& layout, const std::vector<std::int64_t>& ranks,
                const std::vector<StateProfile>& states, std::int64_t enough, const Known* known) {
  megatron::ProfileStore* const store = known != nullptr ? &known->profiles().megatron : nullptr;
  if (store != nullptr) store->bound();
  std::optional<megatron::FoldedRanks> folded;
  if (!states.empty()) folded.emplace(job, layout, store);
  Need worst;
  for (std::size_t i = 0; i < ranks.size() && worst.peak <= enough; ++i) {
    Tape tape;
    const RankResult result =
        folded ? folded->run(ranks[i], tape, states[i]) : run_rank(job, layout, ranks[i], tape, true);
    worst.peak = std::max(worst.peak, tape.peak() + result.outside_bytes);
    worst.host = std::max(worst.host, result.host_bytes);
  }
  return worst;
}

}  // namespace plimsoll::step
