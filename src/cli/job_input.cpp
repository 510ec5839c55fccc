// SPDX-License-Identifier: Apache-2.0
#include "cli/job_input.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"

namespace plimsoll::cli {

namespace {

Result<std::int64_t> gpu_count(const std::string& text) {
  std::int64_t count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || count < 1)
    return usage_error(fmt::format("--gpus is '{}'; wanted a positive whole number", text));
  return count;
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
  for (const std::string& path : arguments.operands) {
    PLIMSOLL_TRY(text, read_file(path));
    files.push_back({path == "-" ? "standard input" : path, std::move(text)});
  }
  job::ReadOptions options;
  if (const auto name = arguments.value("framework")) {
    options.framework = job::from_name<job::Framework>(*name);
    if (!options.framework)
      return usage_error(fmt::format("--framework is '{}'; wanted one of {}", *name, job::choices<job::Framework>()));
  }
  options.model = arguments.value("model").value_or("");
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
  options.strict = arguments.has("strict");
  options.overrides = arguments.keys;
  return job::read_request(std::move(files), options);
}

}  // namespace plimsoll::cli
