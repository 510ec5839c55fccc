// SPDX-License-Identifier: Apache-2.0
// Searches for plans: whole ones of the three questions with a bar, and how fast one core prices configurations in
// memory and time together.
//   cmake --preset release && cmake --build --preset release --target plan_bench && build/release/bench/plan_bench
// Bars: 2 s for Llama-3 70B on 32 H100, 20 s for Llama-3.1 405B on 16,384 and for DeepSeek-V3 on 1,024, with two
// threads; 100,000 configurations per second and core.
#include <benchmark/benchmark.h>

#include "job/read.h"
#include "plan/search.h"

namespace plimsoll {
namespace {

job::Job question(const char* model, std::int64_t gpus, const char* seq_length, const char* global_batch) {
  job::ReadOptions options;
  options.framework = job::Framework::kMegatronBridge;
  options.model = model;
  options.gpu = "h100-sxm-80gb";
  options.gpus = gpus;
  // Tensor parallelism of 8 so that the first job divides; the search chooses its own.
  options.overrides = {{"seq_length", seq_length},
                       {"global_batch_size", global_batch},
                       {"micro_batch_size", "1"},
                       {"tensor_model_parallel_size", "8"}};
  auto job = job::read_job({}, options);
  if (!job) std::abort();
  return *std::move(job);
}

job::Job llama_70b() { return question("llama3-70b", 32, "4096", "32"); }
job::Job llama_405b() { return question("llama3.1-405b", 16384, "8192", "2048"); }
job::Job deepseek_v3() { return question("deepseek-v3", 1024, "4096", "8192"); }

void search(benchmark::State& state, const job::Job& job, unsigned threads, std::size_t keep) {
  const plan::Space space = plan::make_space(job, {});
  plan::SearchOptions options;
  options.threads = threads;
  options.keep = keep;
  plan::Counts counts;
  for (auto _ : state) {
    const plan::Plan plan = plan::search(job, space, options);
    benchmark::DoNotOptimize(plan.best.size());
    counts = plan.counts;
  }
  const auto rate = [&state](std::size_t count) {
    return benchmark::Counter(static_cast<double>(count) * static_cast<double>(state.iterations()),
                              benchmark::Counter::kIsRate);
  };
  state.counters["considered"] = static_cast<double>(counts.considered);
  state.counters["considered/s"] = rate(counts.considered);
  // What neither a rule, a division nor a smaller relative settles.
  const std::size_t priced = counts.does_not_fit + counts.slower + counts.fits;
  state.counters["priced"] = static_cast<double>(priced);
  state.counters["priced/s"] = rate(priced);
}

// As the command does: all threads, the best five walked through the allocator.
void whole_70b(benchmark::State& state) { search(state, llama_70b(), 0, 5); }
BENCHMARK(whole_70b)->Unit(benchmark::kMillisecond)->UseRealTime();
void whole_405b(benchmark::State& state) { search(state, llama_405b(), 0, 5); }
BENCHMARK(whole_405b)->Unit(benchmark::kMillisecond)->UseRealTime();
void whole_deepseek(benchmark::State& state) { search(state, deepseek_v3(), 0, 5); }
BENCHMARK(whole_deepseek)->Unit(benchmark::kMillisecond)->UseRealTime();

// One core, without the walks.
void one_core_70b(benchmark::State& state) { search(state, llama_70b(), 1, 0); }
BENCHMARK(one_core_70b)->Unit(benchmark::kMillisecond);
void one_core_405b(benchmark::State& state) { search(state, llama_405b(), 1, 0); }
BENCHMARK(one_core_405b)->Unit(benchmark::kMillisecond);
void one_core_deepseek(benchmark::State& state) { search(state, deepseek_v3(), 1, 0); }
BENCHMARK(one_core_deepseek)->Unit(benchmark::kMillisecond);

// Points that all have a price, so that nothing is refused: what one configuration costs.
void every_point(benchmark::State& state, bool checks_rules) {
  job::Job job = question("llama3-70b", 32, "4096", "512");
  job.cluster.gpu.capacity = std::int64_t{1} << 50;
  plan::Space space = plan::make_space(job, {});
  space.tensor = {1, 2, 4, 8};
  space.pipeline = {1, 2, 4};
  space.virtual_pipeline = {1};
  space.context_messages = {job::CpCommType::kP2p};
  space.micro_batch = {1, 2, 4};
  std::erase_if(space.activations, [](const plan::Variant& variant) {
    return variant.recompute.granularity == job::RecomputeGranularity::kSelective || variant.offload.activations ||
           variant.offload.fine_grained;
  });
  space.states.resize(1);
  space.sequence_parallel = {true};
  std::vector<plan::Candidate> points;
  plan::for_each_split(space, job, [&](const plan::Candidate& split) {
    plan::for_each_point(space, job, split, [&](const plan::Candidate& c) { points.push_back(c); });
  });
  for (auto _ : state) {
    // A new one: what earlier points measured counts, what an earlier search did does not.
    plan::Evaluator evaluator(job, space);
    for (const plan::Candidate& c : points) {
      if (!evaluator.make(c) || !evaluator.floor() || (checks_rules && !evaluator.allowed()))
        return state.SkipWithError("not every point has a price");
      benchmark::DoNotOptimize(evaluator.seconds());
      benchmark::DoNotOptimize(evaluator.peak(job.cluster.gpu.capacity));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(points.size()));
}
void memory_and_time(benchmark::State& state) { every_point(state, false); }
BENCHMARK(memory_and_time)->Unit(benchmark::kMicrosecond);
void memory_time_and_rules(benchmark::State& state) { every_point(state, true); }
BENCHMARK(memory_time_and_rules)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plimsoll
