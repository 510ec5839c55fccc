// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/checked.h"
#include "job/read.h"
#include "rl/trainer.h"

namespace plimsoll::rl {

namespace {

bool has_trainer_key(const Run& run, std::string_view key) {
  return std::any_of(run.trainer_keys.begin(), run.trainer_keys.end(),
                     [key](const auto& given) { return given.first == key; });
}

job::ReadOptions options_of(const Run& run) {
  job::ReadOptions options;
  options.framework = run.trainer_framework;
  options.model = run.model_name;
  if (!run.cluster.gpu.id.empty()) options.gpu = run.cluster.gpu.id;
  options.gpus = run.trainer_gpus;
  options.overrides = run.trainer_keys;
  const auto add = [&](const char* key, std::int64_t value) {
    options.overrides.emplace_back(key, std::to_string(value));
  };
  add("seq_length", run.packing.seq_len);
  add("micro_batch_size", 1);
  add("gradient_accumulation_steps", 1);
  if (run.has("gpus_per_node")) add("gpus_per_node", run.cluster.gpus_per_node);
  if (run.has("gpu_memory")) add("gpu_memory", run.cluster.gpu.capacity);
  if (run.has("host_memory")) add("host_memory", run.cluster.host_memory);
  if (run.loss_chunk > 0 && !has_trainer_key(run, "loss")) {
    options.overrides.emplace_back("loss", "chunked");
    add("loss_chunks", std::max<std::int64_t>(1, ceil_div(run.packing.seq_len, run.loss_chunk)));
  }
  return options;
}

}  // namespace

std::int64_t bin_multiple(const Run& run, const job::Job& trainer) {
  const std::int64_t ring = trainer.parallel.context > 1 ? 2 * trainer.parallel.context : 1;
  return std::lcm(run.packing.pad_to_multiple_of, ring);
}

Result<job::Request> trainer_request(const Run& run) { return job::read_request({}, options_of(run)); }

Result<job::Job> make_trainer(const Run& run) {
  const auto of_trainer = [](Error error) { return tl::make_unexpected(std::move(error).with_context("trainer")); };
  const auto request = trainer_request(run);
  if (!request) return of_trainer(request.error());
  const auto with_bins = [&request](std::int64_t bins) {
    return job::resolve(request->with("gradient_accumulation_steps", std::to_string(bins)));
  };
  auto first = job::resolve(*request);
  if (!first) {
    // Interleaved pipelines want a multiple of the stages as micro-batches.
    std::vector<job::Problem> problems;
    const auto sketch = job::resolve(*request, problems);
    auto again = sketch && sketch->parallel.pipeline > 1 ? with_bins(sketch->parallel.pipeline) : first;
    if (!again) return of_trainer(first.error());
    first = std::move(again);
  }
  const Packed packed = typical_packing(run, bin_multiple(run, *first), first->data_parallel);
  std::int64_t bins = ceil_div(packed.per_rank, run.algorithm.minibatches);
  // The trainer fills up with copies of a bin.
  if (first->parallel.virtual_pipeline > 1) bins = round_up(bins, first->parallel.pipeline);
  auto job = with_bins(bins);
  if (!job) return of_trainer(job.error());
  return job;
}

}  // namespace plimsoll::rl
