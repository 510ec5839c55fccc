// SPDX-License-Identifier: Apache-2.0
// What `plimsoll rl` takes: one simulation, one whole answer, one plan of 256 GPUs.
#include <benchmark/benchmark.h>

#include "rl/evaluate.h"
#include "rl/plan.h"
#include "rl/read.h"

namespace {

using namespace plimsoll;

rl::Settings settings(const char* gpus, const char* prompts) {
  return {{"framework", "telescope"},
          {"model", "qwen2.5-7b"},
          {"gpu", "h100"},
          {"gpus", gpus},
          {"prompt_mean", "300"},
          {"prompts_batch_size_for_trainer", prompts},
          {"prompt_max", "396"},
          {"completion_cv", "0.8"},
          {"completion_mean", "1100"}};
}

void simulate_step_of_2048(benchmark::State& state) {
  const auto run = rl::read_run({}, settings("64", "256")).value();
  rl::EvaluationOptions options;
  options.simulates = false;
  const auto answer = rl::evaluate(run, options).value();
  const rl::SimulationOptions steps;
  double simulated = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(rl::simulate(*answer.loop, steps));
    simulated += static_cast<double>(steps.steps + steps.warm_up);
  }
  state.counters["steps"] = benchmark::Counter(simulated, benchmark::Counter::kIsRate);
}
BENCHMARK(simulate_step_of_2048)->Unit(benchmark::kMillisecond);

void whole_answer(benchmark::State& state) {
  const auto run = rl::read_run({}, settings("8", "64")).value();
  for (auto _ : state) benchmark::DoNotOptimize(rl::evaluate(run, {}));
}
BENCHMARK(whole_answer)->Unit(benchmark::kMillisecond);

void plan_256(benchmark::State& state) {
  const auto draft = rl::read_draft({}, settings("256", "512")).value();
  for (auto _ : state) benchmark::DoNotOptimize(rl::plan(draft, {}));
}
BENCHMARK(plan_256)->Unit(benchmark::kSecond)->UseRealTime();

void plan_256_moe_megatron(benchmark::State& state) {
  rl::Settings moe = settings("256", "512");
  for (auto& [key, value] : moe)
    if (key == "model") value = "qwen3-30b-a3b";
  moe.emplace_back("trainer_framework", "megatron-lm");
  moe.emplace_back("megatron_use_transformer_engine", "true");
  const auto draft = rl::read_draft({}, moe).value();
  for (auto _ : state) benchmark::DoNotOptimize(rl::plan(draft, {}));
}
BENCHMARK(plan_256_moe_megatron)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace
