// SPDX-License-Identifier: Apache-2.0
// All rules of a framework against one candidate of a search, for a dense and a MoE job.
//   cmake --preset release && cmake --build --preset release --target rules_bench && build/release/bench/rules_bench
// Bar: at least 500,000 candidates per second and core, a fifth of the time that a search has for one.
#include <benchmark/benchmark.h>

#include "model/catalog.h"
#include "rules/rules.h"

namespace plimsoll {
namespace {

job::Job job_of(const char* model, std::int64_t expert) {
  job::Job job = job::defaults_for(job::Framework::kMegatronBridge);
  job.model = model::find_model(model).value();
  job.cluster.gpu = cluster::find_gpu("h100-sxm-80gb").value();
  job.cluster.gpus = 64;
  job.parallel.tensor = 4;
  job.parallel.expert = expert;
  job.parallel.expert_tensor = 1;
  job.parallel.sequence_parallel = true;
  job.batch.seq_length = 4096;
  job.batch.global_batch = 64;
  job.optimizer.distributed = true;
  return job;
}

void candidates(benchmark::State& state, const char* model, std::int64_t expert) {
  const job::Job base = job_of(model, expert);
  const rules::Checker checker(rules::catalogue(), base);
  job::Job candidate = base;
  if (checker.violates_any_error(candidate)) std::abort();
  for (auto _ : state) {
    candidate.batch.micro_batch = candidate.batch.micro_batch == 1 ? 2 : 1;
    benchmark::DoNotOptimize(checker.violates_any_error(candidate));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(candidates, dense, "llama3-70b", 1);
BENCHMARK_CAPTURE(candidates, experts, "mixtral-8x7b", 8);

}  // namespace
}  // namespace plimsoll
