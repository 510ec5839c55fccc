// SPDX-License-Identifier: Apache-2.0
#include "answer/input.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include <fmt/format.h>

#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "base/usage.h"
#include "cluster/architecture.h"
#include "job/hybrid_model.h"
#include "job/keys.h"
#include "job/short_names.h"
#include "model/catalog.h"

namespace plimsoll::answer {

namespace {

// A name of the catalogue where no such file is.
bool names_model(const std::string& operand) {
  return operand != "-" && !file_exists(operand) && model::find_model(operand).has_value();
}

// What an operand that is no file would have been as a model: "did you mean llama3-8b?".
std::string meant_model(const std::vector<std::string>& operands) {
  for (const std::string& operand : operands) {
    std::error_code ignored;
    if (operand == "-" || std::filesystem::exists(operand, ignored)) continue;
    const auto model = model::find_model(operand);
    if (!model && model.error().hint.starts_with("did you mean")) return model.error().hint;
  }
  return {};
}

// A model alone is a question about the usual way to train it.
void assume_usual(job::ReadOptions& options, const std::vector<std::string>& swept) {
  const auto gives = [&options, &swept](std::initializer_list<std::string_view> keys) {
    const auto is_one = [&keys](const std::string& name) {
      return std::find(keys.begin(), keys.end(), job::canonical_name(name)) != keys.end();
    };
    return std::any_of(swept.begin(), swept.end(), is_one) ||
           std::any_of(options.overrides.begin(), options.overrides.end(),
                       [&is_one](const auto& given) { return is_one(given.first); });
  };
  const auto model = model::find_model(options.model);
  if (!model) return;
  constexpr std::int64_t kUsualLength = 4096;
  const std::int64_t length = model->max_positions > 0 ? std::min(kUsualLength, model->max_positions) : kUsualLength;
  job::Settings assumed;
  if (!gives({"seq_length"})) assumed.emplace_back("seq_length", std::to_string(length));
  if (!gives({"micro_batch_size"})) assumed.emplace_back("micro_batch_size", "1");
  if (!gives({"bf16", "fp16", "params_dtype", "compute_dtype", "recipe"}))
    assumed.emplace_back(usual_precision(options.gpu), "true");
  const bool needs_megatron = job::routes_alone(*model);
  const job::Framework sharded =
      job::assumed_framework(needs_megatron ? job::Assumed::kForPlans : job::Assumed::kForManyGpus);
  if (!options.framework && (needs_megatron || options.gpus.value_or(1) > 1)) options.framework = sharded;
  if (assumed.empty()) return;
  std::string flags;
  for (const auto& [key, value] : assumed)
    flags += fmt::format(" --{}{}", replace(key, '_', '-'), value == "true" ? "" : " " + value);
  options.notes.push_back("assumed:" + flags +
                          (options.framework == sharded ? fmt::format(" --framework {}", job::name_of(sharded)) : ""));
  options.overrides.insert(options.overrides.begin(), assumed.begin(), assumed.end());
}

Result<std::vector<job::InputFile>> read_files(const std::vector<std::string>& paths) {
  std::vector<job::InputFile> files;
  for (const std::string& path : paths) {
    PLIMSOLL_TRY(text, read_file(path));
    files.push_back({path == "-" ? "standard input" : path, std::move(text)});
  }
  return files;
}

Result<job::Request> request_of(std::vector<job::InputFile> files, Input input, bool assumes_usual) {
  job::ReadOptions options;
  if (!input.framework.empty()) {
    PLIMSOLL_TRY(framework, framework_named(input.framework));
    options.framework = framework;
  }
  options.model = std::move(input.model);
  options.gpu = std::move(input.gpu);
  options.gpus = input.gpus;
  options.script_args = std::move(input.script_args);
  options.command = input.command;
  options.config = std::move(input.config);
  options.strict = input.strict;
  options.overrides = std::move(input.settings);
  if (assumes_usual) assume_usual(options, input.swept);
  return job::read_request(std::move(files), options);
}

}  // namespace

Result<job::Request> read_input(Input input) {
  const bool model_is_named = !input.model.empty();
  if (input.operands.empty() && !model_is_named)
    return usage_error("a job is missing; wanted a file, or --model with --gpu and --gpus",
                       "plimsoll fit job.toml, or plimsoll fit --model llama3-8b --gpu h100-sxm-80gb --gpus 8");
  if (std::count(input.operands.begin(), input.operands.end(), "-") > 1)
    return usage_error("standard input was named twice");
  if (!model_is_named) {
    const auto model = std::find_if(input.operands.begin(), input.operands.end(), names_model);
    if (model != input.operands.end()) {
      input.model = *model;
      input.operands.erase(model);
    }
  }
  auto files = read_files(input.operands);
  if (!files) {
    if (files.error().hint.empty()) files.error().hint = meant_model(input.operands);
    return tl::make_unexpected(std::move(files).error());
  }
  const bool assumes_usual = files->empty() && !model_is_named;
  return request_of(*std::move(files), std::move(input), assumes_usual);
}

Result<job::Request> read_sources(std::vector<job::InputFile> files, Input input) {
  return request_of(std::move(files), std::move(input), false);
}

std::string usual_precision(const std::string& gpu) {
  const auto known = cluster::find_gpu(gpu);
  return known && cluster::lacks_bf16(*known) ? "fp16" : "bf16";
}

Result<job::Framework> framework_named(const std::string& name) {
  if (const auto framework = job::from_name<job::Framework>(name)) return *framework;
  return usage_error(fmt::format("--framework is '{}'; wanted one of {}", name, job::choices<job::Framework>()),
                     did_you_mean(name, job::choices<job::Framework>()));
}

std::string full_key_name(std::string_view name) {
  for (const auto& [brief, full] : job::kShortNames)
    if (name == brief) return std::string{full};
  return std::string{name};
}

Result<lever::World> read_world(const std::optional<std::string>& calibration) {
  if (!calibration) return lever::World{};
  PLIMSOLL_TRY(text, read_file(*calibration));
  if (lever::is_learned(text)) {
    auto learned = lever::read_learned(*calibration, text);
    if (!learned) return tl::make_unexpected(std::move(learned.error()).with_context(*calibration));
    lever::World world;
    world.learned = *std::move(learned);
    return world;
  }
  auto read = timing::read_calibration(*calibration, text);
  if (!read) return tl::make_unexpected(std::move(read.error()).with_context(*calibration));
  return lever::World{*std::move(read), {}};
}

}  // namespace plimsoll::answer
