// SPDX-License-Identifier: Apache-2.0
// The folded and the walked answer for a Llama-3 70B job at PP 8, VPP 5 (TP 4, 32 H100, sequence 4096).
//   cmake --preset release && cmake --build --preset release --target fit_bench && build/release/bench/fit_bench
// Bars: folded >= 100,000 answers per second and core; walked <= 20 ms.
#include <benchmark/benchmark.h>

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

}  // namespace
}  // namespace plimsoll
