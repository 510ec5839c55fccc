// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_question.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/job_keys.h"
#include "job/keys.h"
#include "model/catalog.h"
#include "plan/layouts.h"
#include "plan/polish.h"

namespace plimsoll::cli {

namespace {

// --keep takes a key, or a section of the job file for all its keys.
Status pin(std::string_view name, plan::Pins& pinned) {
  std::vector<std::string> known;
  bool is_section = false;
  for (const job::KeyInfo& key : job::key_table()) {
    if (key.section == name) {
      pinned.insert(key.name);
      is_section = true;
    }
    known.push_back(key.name);
    if (std::find(known.begin(), known.end(), key.section) == known.end()) known.push_back(key.section);
  }
  if (is_section) return {};
  const std::string key = job::canonical_name(full_key_name(name));
  if (!job::is_key(key)) {
    const std::string meant = nearest(name, known);
    return usage_error(fmt::format("--keep is '{}'; wanted a key, or a section such as precision or recompute", name),
                       meant.empty() ? "plimsoll keys lists them" : fmt::format("is {} meant?", meant));
  }
  pinned.insert(key);
  return {};
}

bool looks_like_a_file(const std::string& word) {
  const std::string extension = std::filesystem::path(word).extension().string();
  constexpr std::string_view kExtensions[] = {".toml", ".json", ".yaml", ".yml", ".sh", ".txt", ".py"};
  return word.find('/') != std::string::npos ||
         std::find(std::begin(kExtensions), std::end(kExtensions), extension) != std::end(kExtensions);
}

// A lone word that is no file is a model's name, perhaps a mistyped one.
Status take_model_name(Arguments& arguments) {
  if (arguments.operands.size() != 1 || arguments.has("model") || file_exists(arguments.operands[0])) return {};
  const std::string word = arguments.operands[0];
  if (const auto model = model::find_model(word); !model) {
    if (looks_like_a_file(word)) return {};
    return bad_input(fmt::format("'{}' is neither a model of the catalogue nor a file", word), model.error().hint);
  }
  arguments.flags.emplace_back("model", word);
  arguments.operands.clear();
  return {};
}

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
Settings neutral_split(const Question& question, const job::Job& sketch) {
  Settings settings;
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
  const bool splits = sketch->is_megatron() || sketch->framework == job::Framework::kTorchtitan;
  const Settings neutral = neutral_split(question, *sketch);
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
      Settings settings = neutral;
      const auto add = [&](const char* key, const std::string& value) {
        if (!question.pinned.contains(key)) settings.emplace_back(key, value);
      };
      if (splits) {
        add("tensor_model_parallel_size", std::to_string(tensor));
        add("pipeline_model_parallel_size", std::to_string(pipeline));
      }
      if (auto job = job::resolve(question.request.with(settings))) return job;
      // Layers that do not divide are written out.
      const std::string layout =
          plan::balanced_layout(sketch->model.depth(), sketch->model.mtp_layers, pipeline * chunks);
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

// A model's name says nothing about precision, and some frameworks then train in fp32 without a distributed optimizer,
// which nobody means. Keys that are given win.
Settings assumed_for(job::Framework framework, bool has_moe) {
  switch (framework) {
    case job::Framework::kMegatronLm: {
      Settings settings = {{"bf16", "true"},
                           {"use_distributed_optimizer", "true"},
                           {"overlap_grad_reduce", "true"},
                           {"overlap_param_gather", "true"}};
      if (has_moe) settings.emplace_back("moe_grouped_gemm", "true");
      return settings;
    }
    case job::Framework::kDeepSpeed:
    case job::Framework::kTransformers:
      return {{"bf16", "true"}};
    case job::Framework::kFsdp2:  // as accelerate wraps and synchronises
      return {{"bf16", "true"}, {"fsdp_units", "accelerate"}, {"sync_each_micro_batch", "false"}};
    case job::Framework::kMegatronBridge:
    case job::Framework::kTorchtitan:
      return {};
  }
  return {};
}

// Where only a model is named, the files that are to be written say whose job it is.
job::Framework framework_for(const Arguments& arguments) {
  constexpr std::pair<std::string_view, job::Framework> kTargets[] = {
      {"megatron-lm", job::Framework::kMegatronLm}, {"transformers", job::Framework::kTransformers},
      {"deepspeed", job::Framework::kDeepSpeed},    {"fsdp2", job::Framework::kFsdp2},
      {"torchtitan", job::Framework::kTorchtitan},  {"megatron-bridge", job::Framework::kMegatronBridge}};
  for (const auto& [name, framework] : kTargets)
    if (arguments.value("emit") == name) return framework;
  return job::Framework::kMegatronBridge;
}

}  // namespace

Result<Question> read_question(const Arguments& arguments) {
  Arguments base = arguments;
  PLIMSOLL_TRY_STATUS(take_model_name(base));
  for (const std::string& fix : arguments.values("fix")) {
    const std::size_t equals = fix.find('=');
    if (equals == std::string::npos) return usage_error(fmt::format("--fix is '{}'; wanted KEY=VALUE", fix));
    base.keys.emplace_back(job_keys().full_name(fix.substr(0, equals)), fix.substr(equals + 1));
  }
  PLIMSOLL_TRY(request, read_input(base));
  if (!request.options().framework && base.operands.empty())
    request = request.with("framework", job::name_of(framework_for(arguments)));
  Question question{std::move(request), {}, {}, {}};
  for (const auto& [key, value] : base.keys) question.pinned.insert(job::canonical_name(key));
  if (base.operands.empty()) {
    const job::ReadOptions& asked = question.request.options();
    const auto model = model::find_model(asked.model);
    for (const auto& setting : assumed_for(*asked.framework, model && model->has_moe()))
      if (!question.pinned.contains(setting.first)) question.assumed.push_back(setting);
    question.request = question.request.with(question.assumed);
  }
  for (const std::string& keep : arguments.values("keep")) PLIMSOLL_TRY_STATUS(pin(keep, question.pinned));
  for (const std::string& vary : arguments.values("vary")) {
    if (vary != "precision") return usage_error(fmt::format("--vary is '{}'; wanted precision", vary));
    question.space.changes_numbers = true;
  }
  return question;
}

Result<job::Job> first_job(const Question& question) {
  auto job = job_that_divides(question);
  if (job) {
    PLIMSOLL_TRY_STATUS(fix_batch(*job));
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

Result<plan::Plan> plan_for(const Question& question, const plan::SearchOptions& options) {
  PLIMSOLL_TRY(job, first_job(question));
  plan::Plan found = plan::search(job, plan::make_space(job, question.pinned, question.space), options);
  found.assumed = question.assumed;
  plan::polish(question.request, question.pinned, options.world != nullptr ? *options.world : lever::World{}, found);
  return found;
}

}  // namespace plimsoll::cli
