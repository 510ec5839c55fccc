// SPDX-License-Identifier: Apache-2.0
// Names the bottleneck by the shares of facts rl-and-inference.md 8 and says what would move it.
#include <fmt/format.h>

#include "rl/evaluate.h"

namespace plimsoll::rl {

namespace {

constexpr double kMuch = 0.1;      // of a step: a side that waits this long waits for the other
constexpr double kSome = 0.05;     // of the groups: lost ones that are worth a line
constexpr double kRoom = 0.6;      // of the cache: below it there is room for more lanes
constexpr double kTightUse = 0.9;  // above it the cache is what is short

double percent(double share) { return 100 * share; }

void classify_together(const Run& run, Evaluation& evaluation) {
  const Balance& balance = evaluation.balance;
  const double generate =
      evaluation.simulation.period > 0 ? std::max(0.0, evaluation.simulation.period - balance.train) : balance.generate;
  std::vector<std::string>& evidence = evaluation.evidence;
  if (balance.train > generate) {
    evaluation.limit = Limit::kTrainer;
    evidence.push_back(fmt::format("training takes {:.1f} s of a step, generation {:.1f} s", balance.train, generate));
    return;
  }
  const Distribution& lengths = evaluation.loop->completion;
  const double longest = lengths.expected_maximum(static_cast<double>(run.samples_per_step()));
  const double bulk = static_cast<double>(run.samples_per_step()) / balance.samples_per_second;
  evaluation.limit = generate > 1.5 * bulk ? Limit::kTail : Limit::kRollout;
  evidence.push_back(fmt::format(
      "generation takes {:.1f} s of a step, training {:.1f} s; full batches alone would take {:.1f} s, the rest is "
      "waiting for the longest of {} samples ({:.0f} tokens against a mean of {:.0f})",
      generate, balance.train, bulk, run.samples_per_step(), longest, lengths.mean()));
  if (evaluation.limit == Limit::kTail)
    evidence.emplace_back("asynchronous generation, or a smaller max_tokens, shortens it; more servers hardly do");
}

}  // namespace

void classify(const Run& run, Evaluation& evaluation) {
  const Simulation& simulation = evaluation.simulation;
  const Balance& balance = evaluation.balance;
  std::vector<std::string>& evidence = evaluation.evidence;
  evaluation.limit = balance.limit;
  if (evaluation.loop == nullptr) return;
  const Loop& loop = *evaluation.loop;
  if (loop.limit == 0) return classify_together(run, evaluation);
  if (!(simulation.period > 0)) return;
  if (simulation.trainer_sync > kMuch)
    evidence.push_back(
        fmt::format("weight synchronisation takes {:.0f} % of a step", percent(simulation.trainer_sync)));
  if (simulation.late_share + simulation.cancelled_share > kSome)
    evidence.push_back(
        fmt::format("{:.0f} % of the groups end too late and {:.0f} % are cancelled: their tokens are lost, and the "
                    "longest go first",
                    percent(simulation.late_share), percent(simulation.cancelled_share)));
  if (simulation.trainer_idle <= kMuch) {
    evaluation.limit = simulation.trainer_sync > 0.5 ? Limit::kWeightSync : Limit::kTrainer;
    evidence.push_back(fmt::format("the trainer waits {:.0f} % of the time; servers may start nothing new for {:.0f} %",
                                   percent(simulation.trainer_idle), percent(simulation.dispatch_paused)));
    if (simulation.dispatch_paused > kMuch)
      evidence.emplace_back(
          "GPUs to the trainer, less recomputation or FP8 raise tokens/s; a larger limit of staleness "
          "only makes samples older");
    return;
  }
  evidence.push_back(
      fmt::format("the trainer waits {:.0f} % of the time for samples", percent(simulation.trainer_idle)));
  const double lane_share =
      loop.lanes > 0 ? simulation.mean_running / static_cast<double>(std::min(loop.lanes, loop.max_running)) : 0;
  if (simulation.preemptions_per_step > 0 || simulation.kv_usage > kTightUse) {
    evaluation.limit = Limit::kKvCache;
    evidence.push_back(fmt::format(
        "the KV cache is {:.0f} % full and {:.0f} requests per step are preempted; {:.0f} requests fit a server",
        percent(simulation.kv_usage), simulation.preemptions_per_step, balance.kv_concurrency));
  } else if (loop.lanes > 0 && lane_share > kTightUse && simulation.kv_usage < kRoom) {
    evaluation.limit = Limit::kLanes;
    evidence.push_back(
        fmt::format("all {} requests that a server takes at once run while its cache is {:.0f} % full; it holds {:.0f}",
                    loop.lanes, percent(simulation.kv_usage), balance.kv_concurrency));
  } else if (loop.lanes > 0 && lane_share < kRoom && simulation.server_paused < kMuch &&
             loop.prompt_seconds + loop.reward_seconds > 0) {
    evaluation.limit = Limit::kEnvironment;
    evidence.push_back(
        fmt::format("lanes stand idle {:.0f} % of the time, waiting for prompts or rewards", percent(1 - lane_share)));
  } else {
    evaluation.limit = Limit::kRollout;
    const bool waits_for_all = loop.dispatch == Dispatch::kBatch || !loop.in_flight_updates;
    const double bulk = static_cast<double>(run.samples_per_step()) / balance.samples_per_second;
    if (waits_for_all && balance.generate > 1.5 * bulk) {
      evaluation.limit = Limit::kTail;
      evidence.push_back(fmt::format(
          "servers run empty before each update: a batch takes {:.1f} s, full batches alone would take {:.1f} s; "
          "updates in flight (partial rollouts), or a smaller max_tokens, shorten it",
          balance.generate, bulk));
    }
  }
}

}  // namespace plimsoll::rl
