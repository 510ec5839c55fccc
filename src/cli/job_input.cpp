// SPDX-License-Identifier: Apache-2.0
#include "cli/job_input.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "job/keys.h"
#include "model/catalog.h"

namespace plimsoll::cli {

namespace {

Result<std::int64_t> gpu_count(const std::string& text) {
  std::int64_t count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || count < 1)
    return usage_error(fmt::format("--gpus is '{}'; wanted a positive whole number", text));
  return count;
}

// A name of the catalogue where no such file is.
bool names_model(const std::string& operand) {
  return operand != "-" && !file_exists(operand) && model::find_model(operand).has_value();
}

// A model alone is a question about the usual way to train it.
void assume_usual(job::ReadOptions& options) {
  const auto gives = [&options](std::initializer_list<std::string_view> keys) {
    return std::any_of(options.overrides.begin(), options.overrides.end(), [&keys](const auto& given) {
      const std::string key = job::canonical_name(given.first);
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    });
  };
  const auto model = model::find_model(options.model);
  if (!model) return;
  constexpr std::int64_t kUsualLength = 4096;
  const std::int64_t length = model->max_positions > 0 ? std::min(kUsualLength, model->max_positions) : kUsualLength;
  job::Settings assumed;
  if (!gives({"seq_length"})) assumed.emplace_back("seq_length", std::to_string(length));
  if (!gives({"micro_batch_size"})) assumed.emplace_back("micro_batch_size", "1");
  if (!gives({"bf16", "fp16", "params_dtype", "compute_dtype", "recipe"})) assumed.emplace_back("bf16", "true");
  if (!options.framework && options.gpus.value_or(1) > 1) options.framework = job::Framework::kFsdp2;
  if (assumed.empty()) return;
  std::string flags;
  for (const auto& [key, value] : assumed)
    flags += fmt::format(" --{}{}", replace(key, '_', '-'), value == "true" ? "" : " " + value);
  options.notes.push_back("assumed:" + flags +
                          (options.framework == job::Framework::kFsdp2 ? " --framework fsdp2" : ""));
  options.overrides.insert(options.overrides.begin(), assumed.begin(), assumed.end());
}

}  // namespace

const std::vector<Flag>& job_flags() {
  static const std::vector<Flag> kFlags = {
      {.name = "framework", .argument = "NAME", .help = "read the files as this framework's, whatever they look like"},
      {.name = "model", .argument = "NAME", .help = "a name of plimsoll models, or the path of a config.json"},
      {.name = "gpu", .argument = "NAME", .help = "a name of plimsoll gpus"},
      {.name = "gpus", .argument = "N", .help = "GPUs of the whole job"},
      {.name = "script-args",
       .argument = "WORDS",
       .help = "what a launch script is started with: NAME=value, then $1, ..."},
      {.name = "command", .argument = "N", .help = "which training command of a script, where it has several"},
      {.name = "config",
       .argument = "NAME",
       .help = "which configuration of a file that holds several, or the recipe below a Bridge file"},
      {.name = "strict", .argument = "", .help = "refuse every key of a file that is not known"},
  };
  return kFlags;
}

Result<job::Request> read_input(const Arguments& arguments) {
  if (arguments.operands.empty() && !arguments.has("model"))
    return usage_error("a job is missing; wanted a file, or --model with --gpu and --gpus",
                       "plimsoll fit job.toml, or plimsoll fit --model llama3-8b --gpu h100-sxm-80gb --gpus 8");
  if (std::count(arguments.operands.begin(), arguments.operands.end(), "-") > 1)
    return usage_error("standard input was named twice");
  std::vector<job::InputFile> files;
  std::string model = arguments.value("model").value_or("");
  for (const std::string& path : arguments.operands) {
    if (model.empty() && names_model(path)) {
      model = path;
      continue;
    }
    PLIMSOLL_TRY(text, read_file(path));
    files.push_back({path == "-" ? "standard input" : path, std::move(text)});
  }
  job::ReadOptions options;
  if (const auto name = arguments.value("framework")) {
    options.framework = job::from_name<job::Framework>(*name);
    if (!options.framework)
      return usage_error(fmt::format("--framework is '{}'; wanted one of {}", *name, job::choices<job::Framework>()));
  }
  options.model = std::move(model);
  options.gpu = arguments.value("gpu").value_or("");
  if (const auto gpus = arguments.value("gpus")) {
    PLIMSOLL_TRY(count, gpu_count(*gpus));
    options.gpus = count;
  }
  if (const auto words = arguments.value("script-args"))
    for (const std::string_view word : split(*words, ' '))
      if (!word.empty()) options.script_args.emplace_back(word);
  if (const auto number = arguments.value("command")) {
    const auto parsed = std::from_chars(number->data(), number->data() + number->size(), options.command);
    if (parsed.ec != std::errc{} || parsed.ptr != number->data() + number->size() || options.command < 1)
      return usage_error(fmt::format("--command is '{}'; wanted 1, 2, ...", *number));
  }
  options.config = arguments.value("config").value_or("");
  options.strict = arguments.has("strict");
  options.overrides = arguments.keys;
  if (files.empty() && !arguments.has("model")) assume_usual(options);
  return job::read_request(std::move(files), options);
}

}  // namespace plimsoll::cli
