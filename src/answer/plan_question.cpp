// SPDX-License-Identifier: Apache-2.0
#include "answer/plan_question.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "base/usage.h"
#include "cluster/cluster.h"
#include "job/keys.h"
#include "model/catalog.h"
#include "model/parameters.h"

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

// What everybody sets and a model's name does not say. Keys that are given win.
Settings assumed_for(job::Framework framework, bool has_moe) {
  Settings settings;
  for (const job::UsualSetting& usual : job::facts_of(framework).usual)
    if (has_moe || !usual.needs_experts) settings.emplace_back(usual.key, usual.value);
  return settings;
}

constexpr const char* kUsualGpu = "h100-sxm-80gb";

// As many whole nodes, doubled, as weights, gradients and Adam's states need beside activations.
std::int64_t usual_gpus(const model::Architecture& model, std::int64_t capacity) {
  constexpr std::int64_t kNode = 8;
  constexpr std::int64_t kMost = 1 << 14;
  constexpr double kBytesPerWeight = 18;  // bf16 weights and fp32 gradients, master weights and two moments
  constexpr double kShareOfStates = 0.6;  // of the memory; activations and the rest have the other part
  const double needed = kBytesPerWeight * static_cast<double>(model::count_parameters(model).total);
  std::int64_t gpus = kNode;
  while (gpus < kMost && needed > kShareOfStates * static_cast<double>(capacity) * static_cast<double>(gpus)) gpus *= 2;
  return gpus;
}

// The shortest question names a model alone: a GPU, their number, a length and a batch as people usually take them.
Settings assumed_cluster_and_batch(const model::Architecture& model, const job::ReadOptions& options,
                                   const plan::Pins& pinned) {
  Settings settings;
  std::string gpu = options.gpu;
  const bool has_gpu = !gpu.empty() || pinned.contains("gpu") || pinned.contains("gpu_memory");
  if (!has_gpu) {
    gpu = kUsualGpu;
    settings.emplace_back("gpu", gpu);
  }
  std::int64_t gpus = options.gpus.value_or(0);
  if (gpus == 0 && !pinned.contains("gpus")) {
    const auto known = cluster::find_gpu(gpu.empty() ? kUsualGpu : gpu);
    gpus = usual_gpus(model, known ? known->capacity : cluster::find_gpu(kUsualGpu)->capacity);
    settings.emplace_back("gpus", std::to_string(gpus));
  }
  constexpr std::int64_t kUsualLength = 4096;
  if (!pinned.contains("seq_length"))
    settings.emplace_back(
        "seq_length",
        std::to_string(model.max_positions > 0 ? std::min(kUsualLength, model.max_positions) : kUsualLength));
  constexpr std::int64_t kUsualBatch = 128;
  constexpr std::int64_t kPerGpu = 4;
  if (!pinned.contains("global_batch_size") && !pinned.contains("gradient_accumulation_steps") && gpus > 0)
    settings.emplace_back("global_batch_size", std::to_string(std::max(kUsualBatch, kPerGpu * gpus)));
  return settings;
}

// Where only a model is named, the files that are to be written say whose job it is.
job::Framework framework_for(const std::string& target) {
  for (const job::Framework framework : job::all_frameworks())
    if (target == job::name_of(framework)) return framework;
  return job::assumed_framework(job::Assumed::kForPlans);
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
    const bool needs_fp16 = usual_precision(options.gpu) == "fp16" && !question.pinned.contains("recipe") &&
                            !question.pinned.contains("bf16") && !question.pinned.contains("fp16");
    if (needs_fp16 && job::defaults_for(*options.framework).asked.bf16) question.assumed.emplace_back("fp16", "true");
    if (model)
      for (auto& setting : assumed_cluster_and_batch(*model, options, question.pinned))
        question.assumed.push_back(std::move(setting));
    question.request = question.request.with(question.assumed);
  }
  for (const std::string& keep : asked.kept) PLIMSOLL_TRY_STATUS(pin(keep, question.pinned));
  question.space.changes_numbers = asked.changes_numerics;
  return question;
}

}  // namespace plimsoll::answer
