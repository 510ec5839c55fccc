// SPDX-License-Identifier: Apache-2.0
#include "answer/slow.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace plimsoll::answer {

namespace {

std::string shown(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.3f} s", seconds);
}

// Rates become seconds by what the job does in a step; without the job they keep their shape, in a unit of their own.
MeasuredRun measured(why::Pace pace, const std::optional<Fit>& fit) {
  MeasuredRun run{std::move(pace), {}, false};
  std::vector<why::PacePoint> points = run.pace.points;
  const bool has_seconds =
      std::any_of(points.begin(), points.end(), [](const auto& point) { return point.seconds > 0; });
  if (!has_seconds) {
    run.is_relative = !fit;
    for (why::PacePoint& point : points) {
      const double rate = point.tokens > 0 ? point.tokens : point.samples;
      if (rate <= 0) continue;
      if (!fit)
        point.seconds = 1 / rate;
      else if (point.tokens > 0)
        point.seconds = fit->time.seconds * fit->time.tokens_per_second_per_gpu / rate;
      else
        point.seconds =
            static_cast<double>(fit->job.batch.micro_batch * fit->job.micro_batches * fit->job.data_parallel) / rate;
    }
  }
  run.tempo = why::tempo_of(points);
  return run;
}

const why::PaceTimer* find_timer(const why::Pace& pace, std::string_view part) {
  const auto found = std::find_if(pace.timers.begin(), pace.timers.end(), [part](const why::PaceTimer& timer) {
    return timer.name.find(part) != std::string::npos;
  });
  return found == pace.timers.end() ? nullptr : &*found;
}

double timers_named(const why::Pace& pace, std::initializer_list<std::string_view> parts) {
  double sum = 0;
  for (const why::PaceTimer& timer : pace.timers)
    if (std::any_of(parts.begin(), parts.end(),
                    [&timer](std::string_view part) { return timer.name.find(part) != std::string::npos; }))
      sum += timer.median_most();
  return sum;
}

void suspect_shape(const MeasuredRun& run, std::vector<Suspect>& suspects) {
  const why::Tempo& tempo = *run.tempo;
  const auto seconds = [&run](double value) { return run.is_relative ? 0 : value; };
  if (tempo.change) {
    const why::TempoChange& change = *tempo.change;
    const bool slower = change.after > change.before;
    if (slower)
      suspects.push_back({"changed",
                          fmt::format("from step {} on a step takes {:.0f} % longer than before", change.step,
                                      100 * (change.after / change.before - 1)),
                          "look at what else began then: another job on the nodes, a throttled GPU, longer batches",
                          seconds(change.after - change.before), change.line});
  }
  constexpr double kWorthSaying = 0.02;
  if (tempo.lost_to_spikes > kWorthSaying)
    suspects.push_back(
        {"spikes",
         tempo.period ? fmt::format("every {} steps one takes far longer; together they cost {:.1f} % of the time",
                                    *tempo.period, 100 * tempo.lost_to_spikes)
                      : fmt::format("{} steps take far longer than the others; together they cost {:.1f} % of the time",
                                    tempo.spikes, 100 * tempo.lost_to_spikes),
         tempo.period ? "saving, evaluating or logging comes round with that period: save asynchronously, or less often"
                      : "garbage collection or the data loader: collect by hand (manual_gc), more loader workers",
         seconds(tempo.lost_to_spikes * tempo.steady / (1 - std::min(tempo.lost_to_spikes, 0.9))), 0});
  constexpr double kDrifts = 0.005;
  if (tempo.drift > kDrifts)
    suspects.push_back({"drift", fmt::format("steps grow longer by {:.1f} % every hundred", 100 * tempo.drift),
                        "something grows: host objects, the allocator's flushes (memory_stats), a queue of the loader",
                        0, 0});
}

void suspect_timers(const Slow& slow, std::vector<Suspect>& suspects) {
  const why::Pace& pace = slow.run.pace;
  const double steady = slow.run.tempo ? slow.run.tempo->steady : 0;
  constexpr double kWorthSaying = 0.02;
  const auto worth = [steady](double seconds) { return steady > 0 && seconds > kWorthSaying * steady; };
  if (const double data = timers_named(pace, {"batch-generator", "data-iterator", "data_time"}); worth(data))
    suspects.push_back({"data", fmt::format("waiting for data takes {} of a step", shown(data)),
                        "more loader workers, data on local disks, tokenized before", data, 0});
  for (const std::string_view name : {"forward-backward", "forward-compute", "interval-time"}) {
    const why::PaceTimer* timer = find_timer(pace, name);
    if (timer == nullptr || !worth(timer->median_spread())) continue;
    suspects.push_back({"stragglers",
                        fmt::format("the slowest rank takes {} longer than the fastest in {}",
                                    shown(timer->median_spread()), timer->name),
                        "uneven layers or experts, or one slow GPU: per-rank times (log_straggler), nvidia-smi -q -d "
                        "PERFORMANCE on its node",
                        timer->median_spread(), 0});
    break;
  }
  if (!slow.fit) return;
  const timing::Breakdown& parts = slow.fit->time.parts;
  const double sync =
      timers_named(pace, {"all-grads-sync", "grads-all-reduce", "grads-reduce-scatter", "params-all-gather"});
  if (worth(sync - parts.data))
    suspects.push_back(
        {"messages",
         fmt::format("gradients and parameters take {} of a step to send; {} of it are predicted to show", shown(sync),
                     shown(parts.data)),
         "overlap_grad_reduce and overlap_param_gather; NCCL_DEBUG=INFO says which network it uses", sync - parts.data,
         0});
  const double optimizer = timers_named(pace, {"optimizer"});
  const why::PaceTimer* whole = find_timer(pace, "optimizer");
  const double update = whole != nullptr && whole->name == "optimizer" ? whole->median_most() : optimizer;
  if (worth(update - parts.optimizer))
    suspects.push_back({"optimizer",
                        fmt::format("the optimizer takes {}, predicted are {}", shown(update), shown(parts.optimizer)),
                        "is it the fused one, and is it sharded", update - parts.optimizer, 0});
}

void suspect_signs(const why::Pace& pace, std::vector<Suspect>& suspects) {
  const std::vector<Suspect> said = suspects;
  for (const why::PaceSign& sign : pace.signs) {
    if (std::any_of(said.begin(), said.end(), [&sign](const Suspect& one) { return one.line == sign.line; })) continue;
    suspects.push_back({sign.id, fmt::format("{}: \"{}\"", sign.says, sign.text), sign.fix, 0, sign.line});
  }
}

// Parts of the prediction that are large and have levers: worth a look whatever was measured.
void suspect_prediction(const Fit& fit, std::vector<Suspect>& suspects) {
  const timing::Breakdown& parts = fit.time.parts;
  const double step = fit.time.seconds;
  const auto add = [&](double seconds, const char* id, const char* what, const char* fix) {
    if (seconds > 0.1 * step)
      suspects.push_back(
          {id, fmt::format("{} is {:.0f} % of the predicted step", what, 100 * seconds / step), fix, 0, 0});
  };
  add(parts.host, "host-bound", "launching kernels from the host", "CUDA graphs, a larger micro-batch, torch.compile");
  add(parts.recompute, "recompute", "recomputation", "recompute less: plimsoll plan --from, or selective modules");
  add(parts.bubble, "bubble", "waiting in the pipeline", "more micro-batches or virtual stages");
  add(parts.tensor + parts.context + parts.expert + parts.data, "exposed-messages", "messages that nothing hides",
      "overlap flags, or another split: plimsoll plan");
}

void suspect_regression(const MeasuredRun& before, const MeasuredRun& now, std::vector<Suspect>& suspects) {
  struct Grown {
    const why::PaceTimer* timer;
    double seconds;
  };
  std::vector<Grown> grown;
  for (const why::PaceTimer& timer : now.pace.timers)
    for (const why::PaceTimer& old : before.pace.timers)
      if (old.name == timer.name && timer.median_most() > 1.05 * old.median_most())
        grown.push_back({&timer, timer.median_most() - old.median_most()});
  std::stable_sort(grown.begin(), grown.end(), [](const Grown& a, const Grown& b) { return a.seconds > b.seconds; });
  constexpr std::size_t kMost = 3;
  for (std::size_t i = 0; i < std::min(kMost, grown.size()); ++i)
    suspects.push_back(
        {"grew",
         fmt::format("{} takes {} longer than in {}", grown[i].timer->name, shown(grown[i].seconds), before.pace.file),
         "compare the two configurations: plimsoll diff", grown[i].seconds, 0});
  for (const why::PaceSign& sign : now.pace.signs) {
    const bool is_old = std::any_of(before.pace.signs.begin(), before.pace.signs.end(),
                                    [&sign](const why::PaceSign& other) { return other.id == sign.id; });
    if (!is_old)
      suspects.push_back(
          {"new-sign", fmt::format("not in {}: {}", before.pace.file, sign.says), sign.fix, 0, sign.line});
  }
}

}  // namespace

std::optional<double> Slow::gap() const {
  if (!fit || !run.tempo || run.is_relative || fit->time.seconds <= 0) return std::nullopt;
  return run.tempo->steady / fit->time.seconds - 1;
}

bool Slow::is_slow() const {
  const bool above = fit && run.tempo && !run.is_relative && run.tempo->steady > fit->time.high;
  const bool regressed = before && before->tempo && run.tempo && run.tempo->steady > 1.05 * before->tempo->steady;
  const bool against = std::any_of(suspects.begin(), suspects.end(), [](const Suspect& one) {
    return one.seconds > 0 || one.line > 0 || one.id == "drift";
  });
  return above || regressed || against;
}

Result<Slow> why_slow(const SlowQuestion& question, const lever::World& world) {
  Slow slow;
  if (question.job) {
    PLIMSOLL_TRY(request, read_input(*question.job));
    PLIMSOLL_TRY(answer, fit(request, world));
    slow.fit = std::move(answer);
    for (const lever::PricedChange& change : slow.fit->changes)
      if (change.fits && change.slower && *change.slower < -0.01 && lever::lever_of(change.change).lossless)
        slow.faster.push_back(change);
    std::stable_sort(slow.faster.begin(), slow.faster.end(),
                     [](const auto& a, const auto& b) { return *a.slower < *b.slower; });
  }
  PLIMSOLL_TRY(pace, why::read_pace(question.log));
  slow.run = measured(std::move(pace), slow.fit);
  if (!question.before.empty()) {
    PLIMSOLL_TRY(other, why::read_pace(question.before));
    slow.before = measured(std::move(other), slow.fit);
  }
  if (slow.run.pace.points.empty())
    return bad_input(
        fmt::format("{} has no line that says how long a step takes", question.log),
        "Megatron's iteration lines, bars of tqdm, tps of torchtitan, CurrSamplesPerSec of DeepSpeed, time beside "
        "data_time, or step_time of any logger");
  if (!slow.run.tempo)
    return bad_input(fmt::format("{} has {} steps with a time; at least five are needed", question.log,
                                 slow.run.pace.points.size()));
  if (slow.before) suspect_regression(*slow.before, slow.run, slow.suspects);
  suspect_shape(slow.run, slow.suspects);
  suspect_timers(slow, slow.suspects);
  suspect_signs(slow.run.pace, slow.suspects);
  std::stable_sort(slow.suspects.begin(), slow.suspects.end(),
                   [](const Suspect& a, const Suspect& b) { return a.seconds > b.seconds; });
  if (slow.fit && !slow.run.is_relative) {
    double explained = 0;
    for (const Suspect& suspect : slow.suspects) explained += suspect.seconds;
    slow.unexplained = std::max(0.0, slow.run.tempo->steady - slow.fit->time.high - explained);
  }
  if (slow.fit) suspect_prediction(*slow.fit, slow.suspects);
  return slow;
}

}  // namespace plimsoll::answer
