// SPDX-License-Identifier: Apache-2.0
// Request -> job: the drafts are joined, the joined keys are laid over the framework's defaults, settings over them,
// and the result is completed.
#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "job/derive.h"
#include "job/draft.h"
#include "job/foreign.h"
#include "job/keys.h"
#include "job/keys/table.h"
#include "job/readers/resolve.h"
#include "job/refusal.h"
#include "job/request.h"
#include "job/variables.h"

namespace plimsoll::job {

namespace {

// Keys that stand for several others go first, so that a single key beside them wins.
constexpr std::string_view kBundles[] = {"gpu", "recipe", "sharding", "gradient_checkpointing",
                                         "recompute_activations"};

// What is wrong with one key ends the reading, or is collected where the caller wants to see everything.
Status collected(Status status, std::string key, const ReadOptions& options) {
  if (status || options.problems == nullptr) return status;
  options.problems->push_back({std::move(key), std::move(status.error())});
  return {};
}

Status apply_keys(Job& job, const std::vector<Assignment>& assignments, const ReadOptions& options) {
  return for_each_bundle_first(
      assignments, kBundles, [](const Assignment& assignment) -> std::string_view { return assignment.key; },
      [&job, &options](const Assignment& assignment) -> Status {
        const FoundKey found = find_key(assignment.key);
        // A parser's default about the model gives way to a model that is named.
        if (assignment.weak && found.section->describes_model && !job.base_model.layers.empty()) return {};
        if (!assignment.weak && !assignment.value.is_null())
          job.stated[assignment.key] = document::to_text(assignment.value);
        auto done = set_canonical(job, found, assignment.value);
        if (!done) done = tl::make_unexpected(std::move(done.error()).with_context(assignment.where));
        return collected(std::move(done), assignment.key, options);
      });
}

Status apply_overrides(Job& job, const ReadOptions& options) {
  if (!options.gpu.empty()) PLIMSOLL_TRY_STATUS(set_key(job, "gpu", text_node(options.gpu)));
  if (options.gpus) PLIMSOLL_TRY_STATUS(set_key(job, "gpus", integer_node(*options.gpus)));
  return for_each_bundle_first(
      options.overrides, kBundles, [](const auto& override) { return canonical_name(override.first); },
      [&job, &options](const auto& override) -> Status {
        auto done = set_key(job, override.first, document::parse_scalar(override.second));
        if (!done)
          done = tl::make_unexpected(std::move(done.error()).with_context("--" + replace(override.first, '_', '-')));
        return collected(std::move(done), canonical_name(override.first), options);
      });
}

// The batch is never guessed silently (rules.md R005, R270).
Status require_batch(Job& job) {
  const FrameworkFacts& facts = job.facts();
  if (job.has("micro_batch_size") || (facts.derives_micro_batch && job.has("global_batch_size"))) return {};
  return facts.require_batch != nullptr ? facts.require_batch(job) : Status{};
}

// A whole batch, its micro-batches and their number say how many replicas there are.
std::optional<std::int64_t> gpus_of_batch(const Job& job) {
  if (!job.has("global_batch_size") || !job.has("micro_batch_size") || !job.batch.accumulation) return std::nullopt;
  const auto replica = checked_mul(job.batch.micro_batch, *job.batch.accumulation);
  if (!replica || *replica < 1 || *job.batch.global_batch % *replica != 0) return std::nullopt;
  const auto split =
      checked_mul(checked_mul(job.parallel.tensor, job.parallel.pipeline).value_or(0), job.parallel.context);
  const auto gpus = checked_mul(*job.batch.global_batch / *replica, split.value_or(0));
  return gpus && *gpus > 0 && *gpus < (1 << 20) ? std::optional(*gpus) : std::nullopt;
}

Status require_cluster(Job& job) {
  if (const auto gpus = job.has("gpus") ? std::nullopt : gpus_of_batch(job)) {
    PLIMSOLL_TRY_STATUS(set_key(job, "gpus", integer_node(*gpus)));
    warn(job, fmt::format("gpus: not given; the batch of {} in {} steps of {} makes it {}", *job.batch.global_batch,
                          *job.batch.accumulation, job.batch.micro_batch, *gpus));
  }
  if (!job.has("gpus")) {
    if (job.facts().needs_gpu_count) return bad_input("the number of GPUs is not known", "give --gpus 8, say");
    warn(job, "gpus: not given; one GPU is assumed");
  }
  if (!job.has("gpu") && !job.has("gpu_memory"))
    return bad_input("the GPU is not known", "give --gpu h100, say, or gpu in [cluster]");
  return {};
}

// For a caller that wants every problem: derives and completes as far as the job holds together.
void complete_as_far_as_possible(Job& job, std::vector<Problem>& problems) {
  const bool knows_ranks = job.has("gpus");
  auto done = knows_ranks ? complete(job) : explained(derive(job), job);
  if (!done) problems.push_back({"", std::move(done.error())});
  if (!knows_ranks) job.cluster.gpus = 0;  // not one GPU: not known
}

// --model decides: what the files name counts no more.
void forget_models(std::vector<Draft>& drafts) {
  for (Draft& draft : drafts) {
    draft.model = {};
    draft.unknown_model.clear();
    forget_models(draft.parts);
  }
}

// The drafts of the files as one, below what the settings decide.
Result<Joined> joined_drafts(const Request& request, const ReadOptions& options) {
  const Result<Draft>* named = request.named_model();
  if (named == nullptr) return join_drafts(request.drafts(), options);
  if (!*named) return tl::make_unexpected(named->error());
  std::vector<Draft> drafts = request.drafts();
  forget_models(drafts);
  drafts.push_back(**named);
  return join_drafts(drafts, options);
}

Result<Job> resolve_with(const Request& request, const ReadOptions& options) {
  PLIMSOLL_TRY(joined, joined_drafts(request, options));
  for (const FrameworkFacts* facts : kFrameworkFacts)
    if (facts->fill_in != nullptr) PLIMSOLL_TRY_STATUS(facts->fill_in(joined, options));
  const Framework assumed = assumed_framework(Assumed::kForOneGpu);
  Job job = defaults_for(joined.framework.value_or(assumed));
  job.derives = true;
  if (!joined.framework) {
    const bool has_job_file = std::find(joined.kinds.begin(), joined.kinds.end(), FileKind::kJob) != joined.kinds.end();
    if (has_job_file)
      return bad_input("the framework is not known",
                       fmt::format("add framework = \"{}\", say, to the job file; known are {}",
                                   name_of(assumed_framework(Assumed::kForPlans)), choices<Framework>()));
    warn(job, fmt::format("framework: not given; {} is assumed (--framework names another)", name_of(assumed)));
  }
  job.launch_is_whole = joined.launch_is_whole;
  job.name = request.files().empty() ? options.model : request.files().front().path;
  job.base_model = std::move(joined.model);
  for (auto& [name, value] : joined.environment) job.environment[name] = value;
  for (std::string& warning : joined.warnings) warn(job, std::move(warning));
  job.notes = options.notes;
  job.notes.insert(job.notes.end(), joined.notes.begin(), joined.notes.end());
  job.stated = std::move(joined.stated);
  PLIMSOLL_TRY_STATUS(apply_keys(job, joined.assignments, options));
  PLIMSOLL_TRY_STATUS(apply_overrides(job, options));
  for (const auto& [name, value] : job.environment)
    if (const std::string meant = meant_variable(name); !meant.empty())
      warn(job, fmt::format("environment.{}: not a variable that is known; did you mean {}?", name, meant));
  PLIMSOLL_TRY_STATUS(collected(refuse_foreign_keys(job), "", options));
  if (options.problems != nullptr) {
    complete_as_far_as_possible(job, *options.problems);
    return job;
  }
  PLIMSOLL_TRY_STATUS(require_cluster(job));
  PLIMSOLL_TRY_STATUS(explained(require_batch(job), job));
  PLIMSOLL_TRY_STATUS(complete(job));
  return job;
}

}  // namespace

Result<Job> resolve(const Request& request) { return resolve_with(request, request.options()); }

Result<Job> resolve(const Request& request, std::vector<Problem>& problems) {
  ReadOptions options = request.options();
  options.problems = &problems;
  return resolve_with(request, options);
}

}  // namespace plimsoll::job
