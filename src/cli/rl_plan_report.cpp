// SPDX-License-Identifier: Apache-2.0
// The tables of `rl --plan` and `rl --knobs`, for people.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "answer/words.h"
#include "base/bytes.h"
#include "base/text.h"
#include "cli/rl_report.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

std::string number(double value) { return with_commas(std::llround(value)); }

std::string settings_text(const rl::Settings& settings) {
  std::vector<std::string> words;
  for (const auto& [key, value] : settings) words.push_back(key + " = " + value);
  return join(words, "\n");
}

std::string lanes_text(const rl::Run& run) {
  return run.lanes.prompts_per_server > 0 ? std::to_string(run.lanes.prompts_per_server) : "engine's";
}

std::string signed_gib(std::int64_t bytes) {
  constexpr std::int64_t kSmall = 5 << 20;  // rounds to 0.00 GiB
  if (std::abs(bytes) < kSmall) return "0";
  return (bytes > 0 ? "+" : "") + format_gib(bytes);
}

std::string signed_percent(double share) {
  if (std::abs(share) < 0.0005) return "0";
  return fmt::format("{:+.1f}", 100 * share);
}

}  // namespace

std::string rl_plan_report(const rl::Plan& plan, const Console& console) {
  std::string text;
  if (plan.best.empty()) {
    text = "nothing of the space runs\n";
    if (plan.counts.trainer_too_large > 0)
      text += plan.trainer_splits_model
                  ? "the trainer is too large for every split of these GPUs, however it is sharded: more GPUs\n"
                  : "the trainer is too large for every split of these GPUs: a trainer of Megatron (framework under "
                    "[trainer]) also splits layers and experts; else more GPUs\n";
    if (plan.counts.server_too_large > 0 && plan.counts.considered == 0)
      text += "no server starts: more GPUs per server, or weights in FP8 (inference_weights)\n";
  } else {
    Table table({{"#", Align::kRight},
                 {"train", Align::kRight},
                 {"trainer", Align::kLeft, true},
                 {"serve", Align::kRight},
                 {"servers", Align::kRight},
                 {"TP", Align::kRight},
                 {"prompts", Align::kRight},
                 {"ahead", Align::kRight},
                 {"seq_len", Align::kRight},
                 {"tokens/s", Align::kRight},
                 {"step s", Align::kRight},
                 {"trainer GiB", Align::kRight},
                 {"KV GiB", Align::kRight},
                 {"stale", Align::kRight},
                 {"bound by"}});
    for (std::size_t i = 0; i < plan.best.size(); ++i) {
      const rl::Run& run = plan.best[i].run;
      const rl::Evaluation& answer = plan.best[i].evaluation;
      const bool recomputes = run.trainer.recompute.granularity != job::RecomputeGranularity::kNone;
      table.add_row({std::to_string(i + 1), std::to_string(run.trainer_gpus),
                     answer::describe_split(run.trainer) + (recomputes ? ", recomputes" : ""),
                     std::to_string(run.inference_gpus), std::to_string(run.servers()),
                     std::to_string(run.server.tensor), lanes_text(run), fmt::format("{:g}", run.staleness.limit),
                     std::to_string(run.packing.seq_len), number(answer.tokens_per_second()),
                     fmt::format("{:.2f}", answer.period()), format_gib(answer.memory.peak()),
                     format_gib(answer.server.kv_bytes), fmt::format("{:.2f}", answer.simulation.mean_staleness),
                     std::string{rl::text_of(answer.limit)}});
    }
    text = table.to_text(console.width, console.colour_out);
    const rl::Proposal& best = plan.best.front();
    if (!best.run.is_colocated())
      text += fmt::format(
          "\nideal share of serving GPUs: {:.0f} %, chosen {:.0f} %\n", 100 * plan.ideal_inference_share,
          100.0 * static_cast<double>(best.run.inference_gpus) / static_cast<double>(best.run.cluster.gpus));
    text += "\nthe first as keys\n" + settings_text(best.settings) + '\n';
  }
  text += fmt::format("\n{} combinations priced: {} refused, {} trainers and {} servers too large; {} simulated\n",
                      with_commas(static_cast<std::int64_t>(plan.counts.considered)), plan.counts.refused,
                      plan.counts.trainer_too_large, plan.counts.server_too_large, plan.counts.simulated);
  for (std::size_t i = 0; i < std::min<std::size_t>(3, plan.refusals.size()); ++i)
    text += fmt::format("refused {} times: {}\n", plan.refusals[i].second, plan.refusals[i].first);
  return text;
}

std::string rl_knobs_report(const std::vector<rl::Priced>& knobs, const Console& console) {
  Table table({{"knob", Align::kLeft, true},
               {"trainer GiB", Align::kRight},
               {"step GiB", Align::kRight},
               {"KV GiB", Align::kRight},
               {"requests", Align::kRight},
               {"train s", Align::kRight},
               {"tokens/s %", Align::kRight},
               {"stale", Align::kRight}});
  std::string group;
  std::string notes;
  for (const rl::Priced& one : knobs) {
    if (one.knob.group != group) {
      if (!group.empty()) table.add_rule();
      group = one.knob.group;
    }
    std::vector<std::string> changes;
    for (std::size_t i = 0; i < one.knob.settings.size(); ++i)
      changes.push_back(
          fmt::format("{} {} -> {}", one.knob.settings[i].first, one.was[i], one.knob.settings[i].second));
    std::vector<Cell> cells = {join(changes, ", ")};
    if (!one.refused.empty()) {
      cells.emplace_back("refused");
      notes += fmt::format("{}: refused: {}\n", changes.front(), one.refused);
      table.add_row(std::move(cells));
      continue;
    }
    const auto small = [](double value, double unit) { return std::abs(value) < unit; };
    cells.emplace_back(signed_gib(one.trainer_bytes));
    cells.emplace_back(signed_gib(one.step_bytes));
    cells.emplace_back(signed_gib(one.kv_bytes));
    cells.emplace_back(small(one.requests, 0.05) ? "0" : fmt::format("{:+.1f}", one.requests));
    cells.emplace_back(small(one.train_seconds, 0.005) ? "0" : fmt::format("{:+.2f}", one.train_seconds));
    cells.emplace_back(one.fits ? signed_percent(one.tokens_per_second) : "no");
    cells.emplace_back(small(one.staleness, 0.005) ? "0" : fmt::format("{:+.2f}", one.staleness));
    if (!one.fits) notes += fmt::format("{}: {}\n", changes.front(), one.problem);
    table.add_row(std::move(cells));
  }
  std::string text = table.to_text(console.width, console.colour_out);
  if (!notes.empty()) text += '\n' + notes;
  return text;
}

}  // namespace plimsoll::cli
