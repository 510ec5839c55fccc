// SPDX-License-Identifier: Apache-2.0
#include "answer/plan.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/bytes.h"

namespace plimsoll::answer {

std::vector<std::string> warnings_of(const plan::Plan& plan) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < plan.best.size(); ++i)
    for (const std::string& warning : plan.best[i].warnings) {
      const std::string text = plan.best.size() > 1 ? fmt::format("row {}: {}", i + 1, warning) : warning;
      const auto said = [&warning](const std::string& other) { return other.ends_with(warning); };
      if (std::none_of(all.begin(), all.end(), said)) all.push_back(text);
    }
  return all;
}

std::vector<emit::Reason> reasons_of(const plan::Plan& plan, const plan::Found& found) {
  const timing::StepTime& time = found.time;
  const job::Parallel& parallel = found.job.parallel;
  std::vector<emit::Reason> reasons;
  // A reason stands only beside a value that it explains: a size of 1 has no messages, an off switch no effect.
  const auto share = [&](bool holds, const char* key, const char* text, double seconds) {
    if (holds) reasons.push_back({key, fmt::format("{} {:.1f} % of the step", text, 100 * seconds / time.seconds)});
  };
  share(parallel.tensor > 1, "tensor_model_parallel_size", "its exposed messages are", time.parts.tensor);
  share(parallel.pipeline > 1, "pipeline_model_parallel_size", "the pipeline waits", time.parts.bubble);
  if (parallel.virtual_pipeline > 1)
    reasons.push_back({"virtual_pipeline_model_parallel_size", "more chunks, less waiting"});
  share(parallel.context > 1, "context_parallel_size", "its exposed messages are", time.parts.context);
  share(parallel.expert > 1, "expert_model_parallel_size", "its exposed messages are", time.parts.expert);
  if (parallel.sequence_parallel)
    reasons.push_back({"sequence_parallel", "shards what tensor parallelism leaves whole"});
  reasons.push_back(
      {"micro_batch_size", fmt::format("{} of headroom remain on the worst rank", format_bytes(found.worst.headroom))});
  share(found.job.recompute.granularity != job::RecomputeGranularity::kNone, "recompute_granularity",
        "recomputation is", time.parts.recompute);
  const char* const best = plan.objective == plan::Objective::kTime ? "fastest" : "leanest";
  for (emit::Reason& reason : reasons)
    reason.text += fmt::format(" (plimsoll plan: {} of {} that fit)", best, plan.counts.fits);
  return reasons;
}

std::vector<emit::Reason> reasons_of(const plan::Ladder& ladder) {
  std::vector<emit::Reason> reasons;
  for (const plan::LadderStep& step : ladder.steps)
    for (const auto& [key, value] : step.taken.change.settings)
      reasons.push_back({key, fmt::format("{}: saves {} (plimsoll plan --from)", step.taken.change.label,
                                          format_bytes(-step.taken.difference))});
  return reasons;
}

std::optional<WouldFit> what_would_fit(const Question& question, const plan::SearchOptions& options) {
  const auto job = plan::first_job(question);
  if (!job) return std::nullopt;
  const std::int64_t gpus = job->cluster.gpus;
  if (job->facts().replicates && gpus > 1) {
    // DDP keeps everything on every GPU: more of them do not help, sharding does.
    Question sharded = question;
    const std::string_view framework = job::name_of(job::assumed_framework(job::Assumed::kForManyGpus));
    sharded.request = question.request.with("framework", framework);
    const auto found = plan::plan_for(sharded, options);
    if (!found || found->best.empty()) return std::nullopt;
    return WouldFit{fmt::format("with --framework {}", framework), shown(*found, found->best.front())};
  }
  const auto fewest = plan::fewest_gpus(question, options, gpus + 1, 16 * gpus, nullptr, {});
  if (!fewest) return std::nullopt;
  const auto found = plan::plan_for(plan::with_gpus(question, fewest->gpus), options);
  if (!found || found->best.empty()) return std::nullopt;
  return WouldFit{fmt::format("on {} GPUs", fewest->gpus), shown(*found, found->best.front())};
}

}  // namespace plimsoll::answer
