// SPDX-License-Identifier: Apache-2.0
// The folded and the walked answer for a Llama-3 70B job at PP 8, VPP 5 (TP 4, 32 H100, sequence 4096).
//   cmake --preset release && cmake --build --preset release --target fit_bench && build/release/bench/fit_bench
// whole and what_if: the example of the README as `fit` answers it, with its table of changes, and one answer alone.
// Bars: folded >= 100,000 answers per second and core; walked <= 20 ms; whole <= 30 ms.
#include <benchmark/benchmark.h>

#include "answer/fit.h"
#include "answer/input.h"
#include "job/pipeline_layout.h"
#include "memory/answer.h"
#include "model/catalog.h"
#include "step/program.h"

namespace plimsoll {
namespace {

job::Job llama_70b_pp8_vpp5() {
  job::Job job = job::defaults_for(job::Framework::kMegatronBridge);
  job.model = model::find_model("llama3-70b").value();
  job.cluster.gpu = cluster::find_gpu("h100-sxm-80gb").value();
  job.cluster.gpus = 32;
  job.parallel.tensor = 4;
  job.parallel.pipeline = 8;
  job.parallel.virtual_pipeline = 5;
  job.parallel.sequence_parallel = true;
  job.batch.seq_length = 4096;
  job.batch.global_batch = 32;
  job.optimizer.distributed = true;
  if (const auto status = job::complete(job); !status) std::abort();
  return job;
}

void folded(benchmark::State& state) {
  const job::Job job = llama_70b_pp8_vpp5();
  const job::PipelineLayout layout = job::pipeline_layout(job).value();
  for (auto _ : state) {
    step::Tape tape;
    step::run_rank(job, layout, 0, tape, true);
    benchmark::DoNotOptimize(tape.peak());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(folded);

void walked(benchmark::State& state) {
  const job::Job job = llama_70b_pp8_vpp5();
  memory::AskedRanks first;
  first.pp = 0;
  for (auto _ : state) benchmark::DoNotOptimize(memory::answer(job, first).value().ranks.front().peak_allocated);
}
BENCHMARK(walked)->Unit(benchmark::kMillisecond);

job::Request example() {
  answer::Input input;
  input.operands = {std::string(PLIMSOLL_SOURCE_DIR) + "/examples/llama3-70b.toml"};
  auto request = answer::read_input(std::move(input));
  if (!request) std::abort();
  return *std::move(request);
}

void whole(benchmark::State& state) {
  const job::Request request = example();
  const lever::World world;
  for (auto _ : state) benchmark::DoNotOptimize(answer::fit(request, world).value().changes.size());
}
BENCHMARK(whole)->Unit(benchmark::kMillisecond)->UseRealTime();

// Another value of a key, with memory, seconds and rules: what a loop in Python asks again and again.
void what_if(benchmark::State& state) {
  const job::Request request = example();
  const lever::World world;
  int i = 0;
  for (auto _ : state) {
    const job::Request other = request.with({{"seq_length", ++i % 2 == 0 ? "4096" : "2048"}});
    benchmark::DoNotOptimize(answer::fit(other, world, {}, answer::Changes::kNone).value().memory.fits);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(what_if)->Unit(benchmark::kMicrosecond);

// The same in closed form: the least that it needs, and its seconds.
void what_if_closed_form(benchmark::State& state) {
  const job::Request request = example();
  const lever::World world;
  int i = 0;
  for (auto _ : state) {
    const job::Request other = request.with({{"seq_length", ++i % 2 == 0 ? "4096" : "2048"}});
    benchmark::DoNotOptimize(answer::estimate(other, world).value().memory.tensors);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(what_if_closed_form)->Unit(benchmark::kMicrosecond);

// The same without the memory: what it would cost if the walk were left out.
void what_if_seconds_only(benchmark::State& state) {
  const job::Request request = example();
  const lever::World world;
  int i = 0;
  for (auto _ : state) {
    const auto job = job::resolve(request.with({{"seq_length", ++i % 2 == 0 ? "4096" : "2048"}}));
    benchmark::DoNotOptimize(lever::time_of(job.value(), world).value().seconds);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(what_if_seconds_only)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plimsoll
