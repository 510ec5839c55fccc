// SPDX-License-Identifier: Apache-2.0
#include "answer/plan_question.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "base/usage.h"
#include "job/keys.h"
#include "model/catalog.h"

namespace plimsoll::answer {

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
Status take_model_name(Input& input) {
  if (input.operands.size() != 1 || !input.model.empty() || file_exists(input.operands[0])) return {};
  const std::string word = input.operands[0];
  if (const auto model = model::find_model(word); !model) {
    if (looks_like_a_file(word)) return {};
    return bad_input(fmt::format("'{}' is neither a model of the catalogue nor a file", word), model.error().hint);
  }
  input.model = word;
  input.operands.clear();
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
job::Framework framework_for(const std::string& target) {
  constexpr std::pair<std::string_view, job::Framework> kTargets[] = {
      {"megatron-lm", job::Framework::kMegatronLm}, {"transformers", job::Framework::kTransformers},
      {"deepspeed", job::Framework::kDeepSpeed},    {"fsdp2", job::Framework::kFsdp2},
      {"torchtitan", job::Framework::kTorchtitan},  {"megatron-bridge", job::Framework::kMegatronBridge}};
  for (const auto& [name, framework] : kTargets)
    if (target == name) return framework;
  return job::Framework::kMegatronBridge;
}

}  // namespace

Result<Question> read_question(PlanInput asked) {
  Input& base = asked.input;
  PLIMSOLL_TRY_STATUS(take_model_name(base));
  for (const std::string& fix : asked.fixed) {
    const std::size_t equals = fix.find('=');
    if (equals == std::string::npos) return usage_error(fmt::format("--fix is '{}'; wanted KEY=VALUE", fix));
    base.settings.emplace_back(full_key_name(fix.substr(0, equals)), fix.substr(equals + 1));
  }
  PLIMSOLL_TRY(request, read_input(base));
  if (!request.options().framework && base.operands.empty())
    request = request.with("framework", job::name_of(framework_for(asked.target)));
  Question question{std::move(request), {}, {}, {}};
  for (const auto& [key, value] : base.settings) question.pinned.insert(job::canonical_name(key));
  if (base.operands.empty()) {
    const job::ReadOptions& options = question.request.options();
    const auto model = model::find_model(options.model);
    for (auto setting : assumed_for(*options.framework, model && model->has_moe())) {
      if (setting.first == "bf16") setting.first = usual_precision(options.gpu);
      if (!question.pinned.contains(setting.first)) question.assumed.push_back(setting);
    }
    question.request = question.request.with(question.assumed);
  }
  for (const std::string& keep : asked.kept) PLIMSOLL_TRY_STATUS(pin(keep, question.pinned));
  question.space.changes_numbers = asked.changes_numerics;
  return question;
}

}  // namespace plimsoll::answer
