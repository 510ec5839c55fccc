// SPDX-License-Identifier: Apache-2.0
#include "cli/rl_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "answer/words.h"
#include "base/bytes.h"
#include "base/text.h"
#include "cli/table.h"

namespace plimsoll::cli {

namespace {

std::string number(double value) { return with_commas(std::llround(value)); }

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

std::string lengths_text(const rl::Lengths& lengths) {
  if (!lengths.counts.empty())
    return fmt::format("{:.0f} tokens (histogram, at most {})", lengths.mean, lengths.maximum);
  if (lengths.cv > 0)
    return fmt::format("{:.0f} tokens (cv {:g}, at most {})", lengths.mean, lengths.cv, lengths.maximum);
  return fmt::format("{:.0f} tokens", lengths.mean);
}

std::string mode_text(const rl::Run& run) {
  if (run.staleness.mode != rl::Mode::kAsync) return std::string{rl::name_of(run.staleness.mode)};
  return fmt::format("async, at most {:g} batch{} ahead", run.staleness.limit, run.staleness.limit == 1 ? "" : "es");
}

std::string run_lines(const rl::Run& run) {
  std::string text = fmt::format("run: {}, {}, {} x {}, {}, {}\n", run.model.name, rl::name_of(run.framework),
                                 run.cluster.gpus, run.cluster.gpu.id, rl::name_of(run.placement), mode_text(run));
  text += fmt::format("     {} GPUs train ({}); {} serve: {} server{} of {} GPU{}\n", run.trainer_gpus,
                      answer::describe_trainer(run), run.inference_gpus, run.servers(), run.servers() == 1 ? "" : "s",
                      run.gpus_per_server(), run.gpus_per_server() == 1 ? "" : "s");
  text += fmt::format("     {} prompts x {} samples per step; prompts of {}, completions of {}\n",
                      run.algorithm.prompts_per_step, run.algorithm.group_size, lengths_text(run.prompt),
                      lengths_text(run.completion));
  return text;
}

std::string verdict(const rl::Evaluation& evaluation, const Console& console) {
  if (evaluation.fits()) {
    const bool is_risky = !evaluation.server.capture_risk.empty();
    std::string text = fmt::format(
        "{} trainer {} of {} GiB at its peak, server starts with {} GiB of KV cache{}\n",
        paint(is_risky ? "fits, but not surely:" : "fits:", is_risky ? Style::kBad : Style::kGood, console.colour_out),
        format_gib(evaluation.memory.peak()), format_gib(evaluation.memory.capacity),
        format_gib(evaluation.server.kv_bytes),
        is_risky ? " and may run out of memory when it captures CUDA graphs" : "");
    if (const rl::Packed& packed = evaluation.time.packed; packed.truncated > 0)
      text +=
          fmt::format("{} {} of {} samples are longer than seq_len: {} % of the sampled tokens are not trained on\n",
                      paint("cuts:", Style::kBad, console.colour_out), packed.truncated, packed.samples,
                      percent(packed.lost_tokens / (packed.tokens + packed.lost_tokens)));
    return text;
  }
  std::string text;
  for (const std::string& problem : evaluation.problems)
    text += fmt::format("{} {}\n", paint("does not run:", Style::kBad, console.colour_out), problem);
  return text;
}

std::string trainer_table(const rl::Evaluation& evaluation, const Console& console) {
  const rl::TrainerMemory& memory = evaluation.memory;
  Table table({{"trainer memory"}, {"GiB", Align::kRight}, {"%", Align::kRight}, {"made of", Align::kLeft, true}});
  for (std::size_t i = 0; i < memory.peaks.size(); ++i) {
    const rl::Peak& peak = memory.peaks[i];
    table.add_row({peak.name + (i == memory.highest ? " *" : ""), format_gib(peak.bytes),
                   fmt::format("{:.1f}", answer::percent_of(peak.bytes, memory.capacity)), peak.made_of});
  }
  for (const rl::SharedPhase& phase : evaluation.phases)
    table.add_row({"GPU during " + phase.name, format_gib(phase.bytes),
                   fmt::format("{:.1f}", answer::percent_of(phase.bytes, memory.capacity)), phase.made_of});
  return table.to_text(console.width, console.colour_out);
}

std::string server_table(const rl::Evaluation& evaluation, const Console& console) {
  const inference::ServerMemory& server = evaluation.server;
  Table table({{"server memory, one GPU"}, {"GiB", Align::kRight}, {"%", Align::kRight}, {""}});
  const std::int64_t capacity = server.server.gpu.capacity;
  for (const inference::MemoryRow& row : server.table)
    table.add_row({row.name, format_gib(row.bytes), fmt::format("{:.1f}", answer::percent_of(row.bytes, capacity)),
                   row.estimated ? "estimated" : ""});
  std::string text = table.to_text(console.width, console.colour_out);
  text += fmt::format("{} blocks, {} tokens; {:.2f} requests of {} tokens\n", with_commas(server.blocks),
                      with_commas(server.kv_tokens), server.max_concurrency,
                      with_commas(server.server.max_model_len.value_or(0)));
  if (!server.capture_risk.empty()) text += "graphs: " + server.capture_risk + '\n';
  return text;
}

std::string packing_lines(const rl::Run& run, const rl::TrainerTime& time) {
  const rl::Packed& packed = time.packed;
  std::string text =
      fmt::format("packing: {} samples in {} bins of {}; {} bins per rank, {} % of the computed tokens are samples'\n",
                  packed.samples, packed.bins, run.packing.seq_len, packed.per_rank,
                  percent(packed.efficiency(run.trainer.data_parallel)));
  if (packed.truncated > 0)
    text += fmt::format("         {} samples are longer than seq_len and lose {} tokens\n", packed.truncated,
                        number(packed.lost_tokens));
  return text;
}

std::string time_table(const rl::Evaluation& evaluation, const Console& console) {
  const rl::TrainerTime& time = evaluation.time;
  const rl::SyncTime& sync = evaluation.sync;
  Table table({{"a step of the trainer"}, {"s", Align::kRight}, {"note", Align::kLeft, true}});
  const auto seconds = [](double value) { return fmt::format("{:.2f}", value); };
  table.add_row({"forward and backward", seconds(time.forward_backward),
                 fmt::format("attention costs {} % of whole bins'", percent(time.attention_share))});
  if (time.extra_passes > 0) table.add_row({"log-probabilities", seconds(time.extra_passes)});
  if (time.critic > 0) table.add_row({"critic", seconds(time.critic)});
  table.add_row({"optimizer", seconds(time.optimizer)});
  if (time.overhead > 0) table.add_row({"given overhead", seconds(time.overhead)});
  table.add_row({"weights: gather", seconds(sync.gather)});
  if (sync.staging > 0) table.add_row({"weights: host and back", seconds(sync.staging)});
  if (sync.switching > 0) table.add_row({"trainer's states to the host and back", seconds(sync.switching)});
  table.add_row({"weights: transfer", seconds(sync.transfer),
                 fmt::format("{} {}", format_bytes(static_cast<std::int64_t>(sync.bytes)),
                             sync.shared    ? "within GPUs"
                             : sync.crosses ? "over the network"
                                            : "over NVLink")});
  table.add_row({"weights: load", seconds(sync.load), fmt::format("{} tensors", with_commas(sync.tensors))});
  table.add_rule();
  table.add_row({"together", seconds(time.seconds + sync.seconds())});
  return table.to_text(console.width, console.colour_out);
}

// Of a run that was too large to simulate only the closed form is shown.
class LoopTable {
 public:
  explicit LoopTable(bool simulated)
      : simulated_(simulated), table_({{"the loop"}, {"closed form", Align::kRight}, {"simulated", Align::kRight}}) {}

  void both(const char* name, std::string closed, std::string simulated) {
    table_.add_row({name, std::move(closed), simulated_ ? std::move(simulated) : std::string{}});
  }
  void simulated(const char* name, std::string value) {
    if (simulated_) table_.add_row({name, "", std::move(value)});
  }
  [[nodiscard]] std::string text(const Console& console) const {
    return table_.to_text(console.width, console.colour_out);
  }

 private:
  bool simulated_;
  Table table_;
};

std::string loop_table(const rl::Run& run, const rl::Evaluation& evaluation, const Console& console) {
  const rl::Simulation& s = evaluation.simulation;
  const rl::Balance& balance = evaluation.balance;
  LoopTable table(s.period > 0);
  const auto gpus = static_cast<double>(run.cluster.gpus);
  const auto seconds = [](double value) { return fmt::format("{:.2f}", value); };
  table.both("seconds per step", seconds(balance.period), seconds(s.period));
  table.both("trained tokens/s", number(balance.tokens_per_second), number(s.tokens_per_second));
  table.both("trained tokens/s per GPU", number(balance.tokens_per_second / gpus), number(s.tokens_per_second / gpus));
  table.both("requests running per server", number(balance.concurrency), number(s.mean_running));
  table.both("decode step, ms", seconds(1e3 * balance.decode_step), "");
  table.both("trainer waits, %", percent(std::max(0.0, 1 - balance.train / balance.period)), percent(s.trainer_idle));
  table.simulated("trainer sends weights, %", percent(s.trainer_sync));
  table.simulated("servers idle, %", percent(s.server_idle));
  if (run.staleness.mode == rl::Mode::kAsync) table.simulated("nothing new may start, %", percent(s.dispatch_paused));
  table.simulated("KV cache in use, %", percent(s.kv_usage));
  table.simulated("preemptions per step", number(s.preemptions_per_step));
  table.simulated("groups too late, %", percent(s.late_share));
  table.simulated("groups cancelled, %", percent(s.cancelled_share));
  if (s.zero_share > 0) table.simulated("groups without advantage, %", percent(s.zero_share));
  table.simulated("seconds of a group", fmt::format("{:.1f}", s.mean_latency));
  table.simulated("staleness, mean steps", seconds(s.mean_staleness));
  std::string text = table.text(console);
  std::vector<std::string> shares;
  for (std::size_t lag = 0; lag < s.staleness.size(); ++lag)
    if (s.staleness[lag] >= 0.0005) shares.push_back(fmt::format("{}: {} %", lag, percent(s.staleness[lag])));
  if (!shares.empty()) text += "staleness in steps: " + join(shares, ", ") + '\n';
  return text;
}

}  // namespace

std::string rl_report(const rl::Run& run, const rl::Evaluation& evaluation, const Console& console) {
  std::string text = verdict(evaluation, console) + run_lines(run) + '\n';
  if (evaluation.loop != nullptr && evaluation.simulation.stuck.empty()) {
    if (!evaluation.fits()) text += "if it ran: ";
    text += fmt::format("{} tokens/s trained ({} per GPU), a step every {:.2f} s; bound by: {}\n",
                        number(evaluation.tokens_per_second()),
                        number(evaluation.tokens_per_second() / static_cast<double>(run.cluster.gpus)),
                        evaluation.period(), rl::text_of(evaluation.limit));
    for (const std::string& line : evaluation.evidence) text += "  " + line + '\n';
    text += '\n';
  }
  text += trainer_table(evaluation, console) + '\n';
  text += server_table(evaluation, console) + '\n';
  text += packing_lines(run, evaluation.time) + '\n';
  text += time_table(evaluation, console);
  if (evaluation.loop != nullptr && evaluation.simulation.stuck.empty())
    text += '\n' + loop_table(run, evaluation, console);
  return text;
}

std::string rl_keys_report(const Console& console) {
  Table table({{"key"},
               {"section"},
               {"value", Align::kLeft, true},
               {"meaning", Align::kLeft, true},
               {"also", Align::kLeft, true}});
  for (const rl::Key& key : rl::key_table())
    table.add_row({std::string{key.name}, std::string{key.section}, rl::type_name(key), std::string{key.doc},
                   std::string{key.aliases}});
  return table.to_text(console.width, console.colour_out);
}

}  // namespace plimsoll::cli
