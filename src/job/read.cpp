// SPDX-License-Identifier: Apache-2.0
// Files and flags -> one job: every file becomes a draft, the drafts are joined, the joined keys are laid
// over the framework's defaults, flags over them, and the result is completed.
#include "job/read.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "job/draft.h"
#include "job/keys.h"
#include "job/keys/table.h"
#include "job/readers/resolve.h"
#include "model/catalog.h"

namespace plimsoll::job {

namespace {

Result<Draft> read_one(const InputFile& file, FileKind kind, std::string_view index) {
  switch (kind) {
    case FileKind::kJob:
      return read_job_file(file);
    case FileKind::kHfConfig:
      return read_hf_model(file, index);
    case FileKind::kSafetensorsIndex:
      return bad_input("this is the index of a checkpoint; it needs the model's config.json beside it",
                       "give config.json instead; the index beside it is read with it");
    case FileKind::kMegatronArgs:
      return read_megatron_args(file);
    case FileKind::kMegatronScript:
      return read_megatron_script(file);
    case FileKind::kBridgeConfig:
      return read_bridge_config(file);
    case FileKind::kBridgeOverrides:
      return read_bridge_overrides(file);
    case FileKind::kTrainingArguments:
      return read_training_arguments(file);
    case FileKind::kAccelerateConfig:
      return read_accelerate_config(file);
    case FileKind::kDeepSpeedConfig:
      return read_deepspeed_config(file);
    case FileKind::kTorchtitanConfig:
      return read_torchtitan_config(file);
    case FileKind::kPeftConfig:
      return read_peft_config(file);
  }
  return bad_input("unknown kind of file");
}

// Keys that stand for several others go first, so that a single key beside them wins.
int order(std::string_view key) {
  constexpr std::string_view kFirst[] = {"gpu", "recipe", "sharding", "gradient_checkpointing",
                                         "recompute_activations"};
  const auto* const found = std::find(std::begin(kFirst), std::end(kFirst), key);
  return static_cast<int>(found - std::begin(kFirst));
}

Status apply(Job& job, std::vector<Assignment> assignments) {
  std::stable_sort(assignments.begin(), assignments.end(),
                   [](const Assignment& a, const Assignment& b) { return order(a.key) < order(b.key); });
  for (const Assignment& assignment : assignments) {
    const FoundKey found = find_key(assignment.key);
    // A parser's default about the model gives way to a model that is named.
    if (assignment.weak && found.section->describes_model && !job.base_model.layers.empty()) continue;
    auto done = set_canonical(job, found, assignment.value);
    if (!done) return tl::make_unexpected(std::move(done.error()).with_context(assignment.where));
  }
  return {};
}

Status apply_overrides(Job& job, const ReadOptions& options) {
  if (!options.gpu.empty()) PLIMSOLL_TRY_STATUS(set_key(job, "gpu", text_node(options.gpu)));
  if (options.gpus) PLIMSOLL_TRY_STATUS(set_key(job, "gpus", integer_node(*options.gpus)));
  auto overrides = options.overrides;
  std::stable_sort(overrides.begin(), overrides.end(), [](const auto& a, const auto& b) {
    return order(canonical_name(a.first)) < order(canonical_name(b.first));
  });
  for (const auto& [name, text] : overrides) {
    auto done = set_key(job, name, document::parse_scalar(text));
    if (!done) return tl::make_unexpected(std::move(done.error()).with_context("--" + replace(name, '_', '-')));
  }
  return {};
}

// The batch is never guessed silently (rules.md R005, R270).
Status require_batch(Job& job) {
  if (job.has("micro_batch_size") || (job.framework == Framework::kDeepSpeed && job.has("global_batch_size")))
    return {};
  switch (job.framework) {
    case Framework::kMegatronLm:
    case Framework::kMegatronBridge:
      return bad_input("the micro-batch size is not known", "give --micro-batch-size 1, say");
    case Framework::kDeepSpeed:
      return bad_input("either train_batch_size or train_micro_batch_size_per_gpu needs to be provided",
                       "give --micro-batch-size 1, say");
    case Framework::kTransformers:
      warn(job, "micro_batch_size: not given; Trainer's default, 8, is counted");
      return {};
    case Framework::kFsdp2:
      warn(job, "micro_batch_size: not given; 1 is counted");
      return {};
    case Framework::kTorchtitan:
      return {};  // its default, 8, is documented in its own files
  }
  return {};
}

Status require_cluster(Job& job) {
  if (!job.has("gpus")) {
    if (job.framework != Framework::kTransformers)
      return bad_input("the number of GPUs is not known", "give --gpus 8, say");
    warn(job, "gpus: not given; one GPU is assumed");
  }
  if (!job.has("gpu") && !job.has("gpu_memory"))
    return bad_input("the GPU is not known", "give --gpu h100, say, or gpu in [cluster]");
  return {};
}

// --model decides: what the files name counts no more.
void forget_models(std::vector<Draft>& drafts) {
  for (Draft& draft : drafts) {
    draft.model = {};
    forget_models(draft.parts);
  }
}

}  // namespace

Result<Job> read_job(const std::vector<InputFile>& files, const ReadOptions& options) {
  std::vector<FileKind> kinds;
  std::string_view index;
  for (const InputFile& file : files) {
    auto kind = recognise(file);
    if (!kind) return tl::make_unexpected(std::move(kind.error()).with_context(file.path));
    kinds.push_back(*kind);
    if (*kind == FileKind::kSafetensorsIndex) index = file.text;
  }
  const bool has_config = std::find(kinds.begin(), kinds.end(), FileKind::kHfConfig) != kinds.end();
  std::vector<Draft> drafts;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const InputFile& file = files[i];
    if (kinds[i] == FileKind::kSafetensorsIndex && has_config) continue;  // read with the config
    auto draft = read_one(file, kinds[i], index);
    if (!draft) return tl::make_unexpected(std::move(draft.error()).with_context(file.path));
    draft->path = file.path;
    drafts.push_back(*std::move(draft));
  }
  if (!options.model.empty()) {
    PLIMSOLL_TRY(named, find_model_or_file(options.model, "."));
    forget_models(drafts);
    drafts.push_back(std::move(named));
  }
  PLIMSOLL_TRY(joined, join_drafts(drafts, options));
  PLIMSOLL_TRY_STATUS(resolve_auto(joined, options));
  Job job = defaults_for(joined.framework.value_or(Framework::kTransformers));
  job.derives = true;
  if (!joined.framework) {
    const bool has_job_file = std::find(joined.kinds.begin(), joined.kinds.end(), FileKind::kJob) != joined.kinds.end();
    if (has_job_file)
      return bad_input(
          "the framework is not known",
          fmt::format("add framework = \"megatron-bridge\", say, to the job file; known are {}", choices<Framework>()));
    warn(job, "framework: not given; transformers is assumed (--framework names another)");
  }
  job.name = files.empty() ? options.model : files.front().path;
  job.base_model = std::move(joined.model);
  for (auto& [name, value] : joined.environment) job.environment[name] = value;
  for (std::string& warning : joined.warnings) warn(job, std::move(warning));
  PLIMSOLL_TRY_STATUS(apply(job, std::move(joined.assignments)));
  PLIMSOLL_TRY_STATUS(apply_overrides(job, options));
  PLIMSOLL_TRY_STATUS(require_cluster(job));
  PLIMSOLL_TRY_STATUS(require_batch(job));
  PLIMSOLL_TRY_STATUS(complete(job));
  return job;
}

}  // namespace plimsoll::job
