// SPDX-License-Identifier: Apache-2.0
#include "timing/pipeline.h"

#include <algorithm>

#include "step/schedule.h"

namespace plimsoll::timing {

namespace {

struct Pass {
  std::int32_t chunk;
  std::int32_t micro_batch;
  bool forward;
};

// Writes down the order in which the schedule calls a rank's passes.
class Recorder final : public step::PassRunner {
 public:
  explicit Recorder(std::vector<Pass>& passes) : passes_(passes) {}
  step::Tensor forward(std::int64_t chunk, std::int64_t micro_batch, const step::Tensor&) override {
    passes_.push_back({static_cast<std::int32_t>(chunk), static_cast<std::int32_t>(micro_batch), true});
    return {};
  }
  step::Tensor backward(std::int64_t chunk, std::int64_t micro_batch) override {
    passes_.push_back({static_cast<std::int32_t>(chunk), static_cast<std::int32_t>(micro_batch), false});
    return {};
  }

 private:
  std::vector<Pass>& passes_;
};

std::vector<Pass> order_of(const PipelineTimes& t, std::int64_t rank, std::int64_t micro_batches) {
  step::PipelineShape shape;
  shape.stages = t.stages;
  shape.rank = rank;
  shape.chunks = t.chunks;
  shape.micro_batches = micro_batches;
  shape.group = t.group;
  shape.extra_warmup = t.extra_warmup;
  shape.gpipe = t.gpipe;
  std::vector<Pass> passes;
  passes.reserve(static_cast<std::size_t>(2 * micro_batches * t.chunks));
  Recorder recorder(passes);
  step::Tape tape;
  step::HeldMessages held;
  step::run_pipeline(shape, tape, recorder, held);
  return passes;
}

// End times of passes, -1 while a pass has not run.
class Ends {
 public:
  Ends(const PipelineTimes& t, std::int64_t micro_batches)
      : micro_batches_(micro_batches),
        forward_(static_cast<std::size_t>(t.stages * t.chunks * micro_batches), -1),
        backward_(forward_.size(), -1) {}
  // By position in the whole model: stage = chunk * stages + rank.
  double& forward(std::int64_t stage, std::int64_t micro_batch) { return forward_[index(stage, micro_batch)]; }
  double& backward(std::int64_t stage, std::int64_t micro_batch) { return backward_[index(stage, micro_batch)]; }
  [[nodiscard]] std::int64_t last_stage() const {
    return static_cast<std::int64_t>(forward_.size()) / micro_batches_ - 1;
  }

 private:
  [[nodiscard]] std::size_t index(std::int64_t stage, std::int64_t micro_batch) const {
    return static_cast<std::size_t>(stage * micro_batches_ + micro_batch);
  }
  std::int64_t micro_batches_;
  std::vector<double> forward_;
  std::vector<double> backward_;
};

double run(const PipelineTimes& t, std::int64_t micro_batches, std::vector<std::vector<PassSpan>>* spans = nullptr) {
  const auto stages = static_cast<std::size_t>(t.stages);
  std::vector<std::vector<Pass>> order(stages);
  for (std::size_t r = 0; r < stages; ++r) order[r] = order_of(t, static_cast<std::int64_t>(r), micro_batches);
  std::vector<std::size_t> next(stages, 0);
  std::vector<double> clock(stages, 0);
  Ends ends(t, micro_batches);
  // A rank that does not overlap its messages spends their time itself.
  const double own_hop = t.overlapped ? 0 : t.hop;
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t r = 0; r < stages; ++r) {
      while (next[r] < order[r].size()) {
        const Pass& pass = order[r][next[r]];
        const std::int64_t stage = pass.chunk * t.stages + static_cast<std::int64_t>(r);
        double ready = 0;
        if (pass.forward) {
          if (stage > 0) ready = ends.forward(stage - 1, pass.micro_batch);
        } else {
          ready = stage < ends.last_stage() ? ends.backward(stage + 1, pass.micro_batch)
                                            : ends.forward(stage, pass.micro_batch);
        }
        if (ready < 0) break;
        const bool received = pass.forward ? stage > 0 : stage < ends.last_stage();
        if (received) ready += t.hop;
        const auto slot = r * static_cast<std::size_t>(t.chunks) + static_cast<std::size_t>(pass.chunk);
        const double start = std::max(clock[r], ready);
        clock[r] = start + (pass.forward ? t.forward[slot] : t.backward[slot]) + (received ? own_hop : 0);
        (pass.forward ? ends.forward(stage, pass.micro_batch) : ends.backward(stage, pass.micro_batch)) = clock[r];
        if (spans != nullptr) (*spans)[r].push_back({start, clock[r], pass.chunk, pass.micro_batch, pass.forward});
        ++next[r];
        moved = true;
      }
    }
  }
  return *std::max_element(clock.begin(), clock.end());
}

}  // namespace

double busy(const PipelineTimes& t, std::int64_t rank) {
  double sum = 0;
  for (std::int64_t c = 0; c < t.chunks; ++c) {
    const auto slot = static_cast<std::size_t>(rank * t.chunks + c);
    sum += t.forward[slot] + t.backward[slot];
  }
  return sum * static_cast<double>(t.micro_batches);
}

std::int64_t slowest(const PipelineTimes& t) {
  std::int64_t worst = 0;
  double most = busy(t, 0);
  for (std::int64_t r = 1; r < t.stages; ++r)
    if (const double seconds = busy(t, r); seconds > most) {
      worst = r;
      most = seconds;
    }
  return worst;
}

double simulate(const PipelineTimes& t) {
  if (t.stages <= 1) return busy(t, 0);
  // Nobody waits for the schedule of a billion passes.
  constexpr double kMostPasses = 4e6;
  // Past the warm-up every group of micro-batches repeats the one before, so the rest is a multiple.
  const std::int64_t group = t.chunks > 1 ? std::max(t.group, t.stages) : t.stages;
  const std::int64_t enough = 4 * std::min<std::int64_t>(group, t.micro_batches);
  const std::int64_t rest = t.micro_batches - enough;
  const bool repeats = !t.gpipe && rest >= 2 * group;
  const std::int64_t simulated = repeats ? enough + 2 * group : t.micro_batches;
  if (static_cast<double>(simulated) * static_cast<double>(t.stages * t.chunks) > kMostPasses) return closed_form(t);
  if (!repeats) return run(t, t.micro_batches);
  const std::int64_t groups = rest / group;
  const std::int64_t base = t.micro_batches - groups * group;
  const double first = run(t, base);
  const double second = run(t, base + group);
  return first + static_cast<double>(groups) * (second - first);
}

std::vector<std::vector<PassSpan>> schedule(const PipelineTimes& t, std::int64_t most) {
  const double passes = 2.0 * static_cast<double>(t.stages * t.chunks) * static_cast<double>(t.micro_batches);
  if (passes > static_cast<double>(most)) return {};
  std::vector<std::vector<PassSpan>> spans(static_cast<std::size_t>(t.stages));
  static_cast<void>(run(t, t.micro_batches, &spans));
  return spans;
}

double closed_form(const PipelineTimes& t) {
  double pace = 0;
  double all = 0;
  for (std::int64_t r = 0; r < t.stages; ++r) {
    const double seconds = busy(t, r);
    pace = std::max(pace, seconds);
    all += seconds;
  }
  if (t.stages <= 1) return pace;
  const auto m = static_cast<double>(t.micro_batches);
  const auto v = static_cast<double>(t.chunks);
  const double hops = 2 * static_cast<double>(t.stages - 1) * t.hop;
  return pace + (all - pace) / m / v + hops + (t.overlapped ? 0 : 2 * m * v * t.hop);
}

}  // namespace plimsoll::timing
