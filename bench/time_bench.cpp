// SPDX-License-Identifier: Apache-2.0
// The time of a step for a Llama-3 70B job at PP 8, VPP 5 (TP 4, 32 H100, sequence 4096) and for DeepSeek-V3 on
// 1024 H100: in closed form, as a search asks, and with the pipeline simulated, as fit asks.
//   cmake --preset release && cmake --build --preset release --target time_bench && build/release/bench/time_bench
// Bar: closed form of Llama >= 200,000 answers per second and core; memory and time together >= 100,000.
#include <benchmark/benchmark.h>

#include "job/pipeline_layout.h"
#include "memory/answer.h"
#include "model/catalog.h"
#include "step/program.h"
#include "timing/step_time.h"

namespace plimsoll {
namespace {

job::Job completed(job::Job job) {
  if (const auto status = job::complete(job); !status) std::abort();
  return job;
}

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
  return completed(job);
}

job::Job deepseek_v3() {
  job::Job job = job::defaults_for(job::Framework::kMegatronBridge);
  job.model = model::find_model("deepseek-v3").value();
  job.cluster.gpu = cluster::find_gpu("h100-sxm-80gb").value();
  job.cluster.gpus = 1024;
  job.parallel.tensor = 2;
  job.parallel.sequence_parallel = true;
  job.parallel.pipeline = 8;
  job.parallel.virtual_pipeline = 2;
  job.parallel.layout = "Et*4|(t*4|)*14tmL";
  job.parallel.expert = 64;
  job.parallel.expert_tensor = 1;
  job.batch.seq_length = 4096;
  job.batch.global_batch = 8192;
  return completed(job);
}

void time_of(benchmark::State& state, const job::Job& job, timing::Detail detail) {
  const job::PipelineLayout layout = job::pipeline_layout(job).value();
  const timing::Machine machine(job.cluster, timing::built_in());
  timing::Options options;
  options.detail = detail;
  for (auto _ : state) benchmark::DoNotOptimize(timing::predict(job, layout, machine, options).seconds);
  state.SetItemsProcessed(state.iterations());
}

void llama_closed_form(benchmark::State& state) { time_of(state, llama_70b_pp8_vpp5(), timing::Detail::kFast); }
BENCHMARK(llama_closed_form);
void llama_simulated(benchmark::State& state) { time_of(state, llama_70b_pp8_vpp5(), timing::Detail::kFull); }
BENCHMARK(llama_simulated);
void deepseek_closed_form(benchmark::State& state) { time_of(state, deepseek_v3(), timing::Detail::kFast); }
BENCHMARK(deepseek_closed_form);
void deepseek_simulated(benchmark::State& state) { time_of(state, deepseek_v3(), timing::Detail::kFull); }
BENCHMARK(deepseek_simulated);

// What a search asks of one configuration: memory of its first stage and the time of its step.
void llama_memory_and_time(benchmark::State& state) {
  const job::Job job = llama_70b_pp8_vpp5();
  const job::PipelineLayout layout = job::pipeline_layout(job).value();
  const timing::Machine machine(job.cluster, timing::built_in());
  timing::Options options;
  options.detail = timing::Detail::kFast;
  for (auto _ : state) {
    step::Tape tape;
    step::run_rank(job, layout, 0, tape, true);
    benchmark::DoNotOptimize(tape.peak());
    benchmark::DoNotOptimize(timing::predict(job, layout, machine, options).seconds);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(llama_memory_and_time);

}  // namespace
}  // namespace plimsoll
