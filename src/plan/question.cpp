// SPDX-License-Identifier: Apache-2.0
#include "plan/question.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "job/keys.h"
#include "plan/layouts.h"
#include "plan/polish.h"

namespace plimsoll::plan {

namespace {

// What files and flags say, as far as it goes without holding together.
std::optional<job::Job> sketch_of(const Question& question) {
  std::vector<job::Problem> problems;
  const job::Request& request = question.request;
  auto job = job::resolve(
      question.pinned.contains("micro_batch_size") ? request : request.with("micro_batch_size", "1"), problems);
  if (!job || job->model.layers.empty()) return std::nullopt;
  // A word that nobody knows is not mended by another split.
  const bool has_unknown = std::any_of(problems.begin(), problems.end(), [](const job::Problem& problem) {
    return !problem.key.empty() && !job::is_key(job::canonical_name(problem.key));
  });
  if (has_unknown) return std::nullopt;
  return *std::move(job);
}

// Keys of the split that are not pinned, back to nothing: a file's own split may not divide, and is chosen anew anyway.
job::Settings neutral_split(const Question& question, const job::Job& sketch) {
  job::Settings settings;
  const auto reset = [&](const char* key, const char* value) {
    if (!question.pinned.contains(key) && sketch.has(key)) settings.emplace_back(key, value);
  };
  for (const char* key : {"virtual_pipeline_model_parallel_size", "context_parallel_size", "expert_model_parallel_size",
                          "num_distributed_optimizer_instances"})
    reset(key, "1");
  for (const char* key : {"pipeline_model_parallel_layout", "num_layers_in_first_pipeline_stage",
                          "num_layers_in_last_pipeline_stage", "num_layers_per_virtual_pipeline_stage"})
    reset(key, "null");
  for (const char* key : {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"})
    reset(key, "false");
  if (!question.pinned.contains("micro_batch_size")) settings.emplace_back("micro_batch_size", "1");
  if (sketch.model.has_moe() && sketch.is_megatron() && !question.pinned.contains("expert_tensor_parallel_size"))
    settings.emplace_back("expert_tensor_parallel_size", "1");
  // A pinned key whose partner is missing: the search chooses the partner.
  const auto partner = [&](const char* key, const char* other, const char* value) {
    if (question.pinned.contains(key) && !sketch.has(other)) settings.emplace_back(other, value);
  };
  if (sketch.recompute.granularity == job::RecomputeGranularity::kFull && sketch.is_megatron()) {
    partner("recompute_granularity", "recompute_method", "uniform");
    partner("recompute_granularity", "recompute_num_layers", "1");
  }
  if (sketch.offload.fine_grained) partner("fine_grained_activation_offloading", "offload_modules", "core_attn");
  return settings;
}

// The plain job, or one with the first split that divides.
Result<job::Job> job_that_divides(const Question& question) {
  auto plain = job::resolve(question.request);
  if (plain) return plain;
  if (!question.pinned.contains("micro_batch_size")) {
    plain = job::resolve(question.request.with("micro_batch_size", "1"));
    if (plain) return plain;
  }
  const auto sketch = sketch_of(question);
  if (!sketch) return plain;
  const bool splits = sketch->facts().splits_model;
  const job::Settings neutral = neutral_split(question, *sketch);
  const auto own_or = [&](const char* key, std::int64_t own, std::vector<std::int64_t> values) {
    return question.pinned.contains(key) || !splits ? std::vector<std::int64_t>{own} : std::move(values);
  };
  const std::int64_t gpus = sketch->cluster.gpus;
  std::vector<std::int64_t> stages;
  for (std::int64_t pipeline = 1; pipeline <= std::min<std::int64_t>(64, gpus); ++pipeline)
    if (gpus % pipeline == 0) stages.push_back(pipeline);
  const std::int64_t chunks =
      question.pinned.contains("virtual_pipeline_model_parallel_size") ? sketch->parallel.virtual_pipeline : 1;
  for (const std::int64_t tensor : own_or("tensor_model_parallel_size", sketch->parallel.tensor, {1, 2, 4, 8}))
    for (const std::int64_t pipeline : own_or("pipeline_model_parallel_size", sketch->parallel.pipeline, stages)) {
      job::Settings settings = neutral;
      const auto add = [&](const char* key, const std::string& value) {
        if (!question.pinned.contains(key)) settings.emplace_back(key, value);
      };
      if (splits) {
        add("tensor_model_parallel_size", std::to_string(tensor));
        add("pipeline_model_parallel_size", std::to_string(pipeline));
      }
      if (auto job = job::resolve(question.request.with(settings))) return job;
      // Layers that do not divide are written out.
      const std::string layout = balanced_layout(sketch->model.depth(), sketch->model.mtp_layers, pipeline * chunks);
      if (pipeline == 1 || layout.empty() || !sketch->is_megatron() ||
          question.pinned.contains("num_layers_per_virtual_pipeline_stage"))
        continue;
      std::erase_if(settings, [](const auto& setting) { return setting.first == "pipeline_model_parallel_layout"; });
      add("pipeline_model_parallel_layout", layout);
      if (auto job = job::resolve(question.request.with(settings))) return job;
    }
  return plain;
}

// A plan keeps the batch of a step: it has to be known.
Status fix_batch(job::Job& job) {
  job::Batch& batch = job.batch;
  if (batch.global_batch) return {};
  if (!batch.accumulation)
    return bad_input("the global batch is not known, and a plan must not choose it",
                     "give --global-batch-size, the sequences of one optimizer step");
  batch.global_batch = batch.micro_batch * *batch.accumulation * job.data_parallel;
  batch.accumulation.reset();
  job.given.erase("gradient_accumulation_steps");
  job.given.insert("global_batch_size");
  return {};
}

}  // namespace

Result<job::Job> first_job(const Question& question) {
  auto job = job_that_divides(question);
  if (job) {
    if (question.space.batch_to_fill == 0) PLIMSOLL_TRY_STATUS(fix_batch(*job));
    return job;
  }
  const auto sketch = sketch_of(question);
  if (!sketch) return job;
  const std::int64_t gpus = sketch->cluster.gpus;
  // Whole nodes and powers of two on both sides: the counts that people have.
  std::int64_t power = 1;
  while (2 * power < gpus) power *= 2;
  const std::int64_t node = gpus / 8 * 8;
  const std::vector<std::int64_t> fewer = {node < gpus ? node : node - 8, power};
  const std::vector<std::int64_t> more = {node + 8, 2 * power > gpus ? 2 * power : 4 * power};
  std::vector<std::string> would_do;
  for (const auto& counts : {fewer, more})
    for (const std::int64_t count : counts) {
      Question other = question;
      other.request = question.request.with("gpus", std::to_string(count));
      if (count < 1 || !job_that_divides(other)) continue;
      would_do.push_back(std::to_string(count));
      break;
    }
  if (!would_do.empty()) job.error().hint = fmt::format("as asked it divides on {} GPUs", join(would_do, " or "));
  const std::int64_t batch = sketch->batch.global_batch.value_or(0);
  if (question.pinned.contains("micro_batch_size") && batch > 0 && batch % sketch->batch.micro_batch != 0)
    job.error().hint =
        fmt::format("a global batch of {} is no multiple of the micro-batch {}", batch, sketch->batch.micro_batch);
  return job;
}

Result<Plan> plan_for(const Question& question, const SearchOptions& options) {
  PLIMSOLL_TRY(job, first_job(question));
  if (options.world != nullptr) PLIMSOLL_TRY_STATUS(timing::check_gpu(options.world->calibration, job.cluster.gpu));
  Plan found = search(job, make_space(job, question.pinned, question.space), options);
  found.assumed = question.assumed;
  polish(question, options, found);
  return found;
}

}  // namespace plimsoll::plan
