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

// The plain job, or one with the first split that divides.
Result<job::Job> job_that_divides(const Question& question) {
  const Settings one_sequence =
      question.pinned.contains("micro_batch_size") ? Settings{} : Settings{{"micro_batch_size", "1"}};
  auto plain = make_job(replaced(question.input, one_sequence), {});
  if (plain || !question.input.options.gpus) return plain;
  const std::int64_t gpus = *question.input.options.gpus;
  for (const std::int64_t tensor : {1, 2, 4, 8}) {
    for (std::int64_t pipeline = 1; pipeline <= 64 && tensor * pipeline <= gpus; ++pipeline) {
      if (gpus % (tensor * pipeline) != 0) continue;
      Settings settings = one_sequence;
      const auto add = [&](const char* key, const std::string& value) {
        if (!question.pinned.contains(key)) settings.emplace_back(key, value);
      };
      add("tensor_model_parallel_size", std::to_string(tensor));
      add("pipeline_model_parallel_size", std::to_string(pipeline));
      if (auto job = make_job(replaced(question.input, settings), {})) return job;
      if (pipeline == 1) continue;
      // Layers that do not divide are written out; the plain job names the model.
      const auto model = model::find_model(question.input.options.model);
      if (!model) continue;
      const std::string layout = plan::balanced_layout(model->depth(), model->mtp_layers, pipeline);
      if (layout.empty()) continue;
      add("pipeline_model_parallel_layout", layout);
      if (auto job = make_job(replaced(question.input, settings), {})) return job;
    }
  }
  return plain;
}

// A model's name says nothing about precision, and some frameworks then train in fp32 without a distributed optimizer,
// which nobody means. Keys that are given win.
Settings assumed_for(job::Framework framework) {
  switch (framework) {
    case job::Framework::kMegatronLm:
      return {{"bf16", "true"},
              {"use_distributed_optimizer", "true"},
              {"overlap_grad_reduce", "true"},
              {"overlap_param_gather", "true"}};
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

}  // namespace

Result<Question> read_question(const Arguments& arguments) {
  Arguments base = arguments;
  PLIMSOLL_TRY_STATUS(take_model_name(base));
  for (const std::string& fix : arguments.values("fix")) {
    const std::size_t equals = fix.find('=');
    if (equals == std::string::npos) return usage_error(fmt::format("--fix is '{}'; wanted KEY=VALUE", fix));
    base.keys.emplace_back(job_keys().full_name(fix.substr(0, equals)), fix.substr(equals + 1));
  }
  PLIMSOLL_TRY(input, read_input(base));
  if (!input.options.framework && base.operands.empty()) input.options.framework = job::Framework::kMegatronBridge;
  Question question{std::move(input), {}, {}, {}};
  for (const auto& [key, value] : base.keys) question.pinned.insert(job::canonical_name(key));
  if (base.operands.empty())
    for (const auto& setting : assumed_for(*question.input.options.framework))
      if (!question.pinned.contains(setting.first)) {
        question.input.options.overrides.push_back(setting);
        question.assumed.push_back(setting);
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
  if (job || !question.input.options.gpus) return job;
  const std::int64_t gpus = *question.input.options.gpus;
  std::vector<std::string> would_do;
  for (const std::int64_t direction : {-1, 1})
    for (std::int64_t distance = 1; distance <= 64 && gpus + direction * distance > 0; ++distance) {
      Question other = question;
      other.input.options.gpus = gpus + direction * distance;
      if (!job_that_divides(other)) continue;
      would_do.push_back(std::to_string(gpus + direction * distance));
      break;
    }
  if (!would_do.empty()) {
    if (!job.error().hint.empty()) job.error().hint += "; ";
    job.error().hint += fmt::format("as asked it divides on {} GPUs", join(would_do, " or "));
  }
  return job;
}

Result<plan::Plan> plan_for(const Question& question, const plan::SearchOptions& options) {
  PLIMSOLL_TRY(job, first_job(question));
  return plan::search(job, plan::make_space(job, question.pinned, question.space), options);
}

}  // namespace plimsoll::cli
