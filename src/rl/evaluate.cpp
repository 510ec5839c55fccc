// SPDX-License-Identifier: Apache-2.0
#include "rl/evaluate.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/text.h"

namespace plimsoll::rl {

namespace {

constexpr double kMostInFlight = 1e6;               // requests that a simulation keeps
constexpr std::int64_t kMostSimulated = 2'000'000;  // samples of its steps
constexpr std::int64_t kResidue = 2LL << 30;        // sleeping server, beside its graphs: facts rl-and-inference.md 6

bool is_spread(RayStrategy strategy) {
  return strategy == RayStrategy::kSpread || strategy == RayStrategy::kStrictSpread;
}

// Ranks that Ray deals over several nodes: neighbours, which Megatron's groups are made of, are on different ones; an
// FSDP group has a share of its ranks on each.
job::Job placed_trainer(const Run& run) {
  job::Job trainer = run.trainer;
  const std::int64_t nodes = run.cluster.gpus / run.cluster.gpus_per_node;
  if (nodes > 1 && is_spread(run.placing.trainer)) {
    trainer.cluster.gpus_per_node = trainer.is_megatron() ? 1 : std::max<std::int64_t>(1, run.trainer_gpus / nodes);
    trainer.cluster.gpu.rates.rack_domain = 0;
  }
  return trainer;
}

// What fills the GPU at the highest peak, and whether another way of the weights to the servers would do.
std::string why_not(const TrainerMemory& held) {
  const Peak& peak = held.peaks[held.highest];
  std::string parts = peak.made_of;
  if (held.highest == 0) {
    std::vector<std::string> words;
    for (const memory::Row& row : held.rank.table)
      if (row.name != "free" && row.bytes * 100 >= held.rank.device_used)
        words.push_back(fmt::format("{} {}", row.name, format_bytes(row.bytes)));
    if (held.reference > 0) words.push_back("reference " + format_bytes(held.reference));
    if (held.critic > 0) words.push_back("critic " + format_bytes(held.critic));
    parts = join(words, " + ");
  }
  std::string text = fmt::format("the trainer does not fit: {} in the {} ({}), the GPU has {}",
                                 format_bytes(peak.bytes), peak.name, parts, format_bytes(held.capacity));
  if (held.staged_peak)
    text += fmt::format("; weight_broadcast_cpu_staging = true would do: {}", format_bytes(*held.staged_peak));
  return text;
}

// Both sides on one GPU (facts rl-and-inference.md 6, "Colocated fit test").
void share_gpu(const Run& run, Evaluation& evaluation) {
  const inference::ServerMemory& server = evaluation.server;
  const TrainerMemory& memory = evaluation.memory;
  const bool sleeps = run.sleep != SleepLevel::kNone;
  const std::int64_t asleep = inference::sleeping_bytes(server, static_cast<int>(run.sleep)) + (sleeps ? kResidue : 0);
  const std::int64_t capacity = memory.capacity;
  SharedPhase training{"training", memory.peak() + asleep,
                       fmt::format("trainer {} + {} server {}", format_bytes(memory.peak()),
                                   sleeps ? "sleeping" : "awake", format_bytes(asleep)),
                       memory.peak() + asleep <= capacity};
  const std::int64_t beside = server.server.held_by_others;
  SharedPhase generation{"generation", server.requested + beside,
                         fmt::format("server {} + trainer {} {}", format_bytes(server.requested),
                                     run.offload_trainer ? "offloaded" : "resident", format_bytes(beside)),
                         server.requested + beside <= capacity};
  for (const SharedPhase* phase : {&training, &generation})
    if (!phase->fits)
      evaluation.problems.push_back(fmt::format("{} does not fit: {} is {}, the GPU has {}", phase->name,
                                                phase->made_of, format_bytes(phase->bytes), format_bytes(capacity)));
  evaluation.phases = {training, generation};
}

}  // namespace

Result<Evaluation> evaluate(const Run& run, const EvaluationOptions& options) {
  Evaluation evaluation;
  evaluation.warnings = run.warnings;
  std::int64_t beside = 0;
  if (options.walks_memory) {
    PLIMSOLL_TRY(memory, trainer_memory(run, run.trainer, options.world));
    evaluation.memory = std::move(memory);
    const TrainerMemory& held = evaluation.memory;
    for (const std::string& warning : held.warnings) {
      const std::string named = "trainer: " + warning;
      if (std::find(evaluation.warnings.begin(), evaluation.warnings.end(), named) == evaluation.warnings.end())
        evaluation.warnings.push_back(named);
    }
    if (!held.fits) evaluation.problems.push_back(why_not(held));
    if (run.is_colocated())
      beside =
          held.rank.outside +
          (run.offload_trainer ? 0 : held.parameters + held.gradients + held.optimizer + held.reference + held.critic);
    beside = std::min(beside, held.capacity);  // a trainer that does not fit leaves nothing, which is told
  }
  PLIMSOLL_TRY(server, inference::account(placed_server(run, beside)));
  PLIMSOLL_TRY_STATUS(inference::speed_is_known(server.server));
  evaluation.server = std::move(server);
  if (!evaluation.server.start_up_error.empty())
    evaluation.problems.push_back("the server does not start: " + evaluation.server.start_up_error);
  if (run.is_colocated() && options.walks_memory) share_gpu(run, evaluation);

  const job::Job trainer = placed_trainer(run);
  const Packed packed = typical_packing(run, bin_multiple(run, trainer), trainer.data_parallel);
  PLIMSOLL_TRY(time, trainer_time(run, trainer, packed, options.world));
  evaluation.time = std::move(time);
  evaluation.sync = sync_time(run, trainer, evaluation.memory.parameters + evaluation.memory.optimizer, options.world);
  if (evaluation.server.kv_tokens < 1) return evaluation;  // nothing can be served
  evaluation.loop = std::make_shared<const Loop>(make_loop(run, evaluation.server, evaluation.time, evaluation.sync));
  evaluation.balance = balance(*evaluation.loop);
  const Loop& loop = *evaluation.loop;
  const double in_flight = static_cast<double>(loop.servers) * static_cast<double>(loop.lanes);
  if (options.simulates && in_flight > kMostInFlight) {
    evaluation.warnings.push_back(
        fmt::format("{:.0f} requests in flight are too many to simulate; the closed form answers alone", in_flight));
  } else if (options.simulates) {
    SimulationOptions simulation = options.simulation;
    const std::int64_t affordable = std::max<std::int64_t>(4, kMostSimulated / loop.samples());
    simulation.steps = std::min(simulation.steps, affordable);
    simulation.warm_up = std::min(simulation.warm_up, affordable);
    evaluation.simulation = simulate(loop, simulation);
    if (!evaluation.simulation.too_long.empty())
      evaluation.warnings.push_back(evaluation.simulation.too_long + "; the closed form answers alone");
    if (!evaluation.simulation.stuck.empty()) evaluation.problems.push_back(evaluation.simulation.stuck);
  }
  classify(run, evaluation);
  return evaluation;
}

}  // namespace plimsoll::rl
