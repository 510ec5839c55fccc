// SPDX-License-Identifier: Apache-2.0
#include "cli/job_input.h"

#include <charconv>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::cli {

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

Result<answer::Input> input_of(const Arguments& arguments) {
  answer::Input input;
  input.operands = arguments.operands;
  input.framework = arguments.value("framework").value_or("");
  input.model = arguments.value("model").value_or("");
  input.gpu = arguments.value("gpu").value_or("");
  if (const auto text = arguments.value("gpus")) {
    std::int64_t count = 0;
    const auto parsed = std::from_chars(text->data(), text->data() + text->size(), count);
    if (parsed.ec != std::errc{} || parsed.ptr != text->data() + text->size() || count < 1)
      return usage_error(fmt::format("--gpus is '{}'; wanted a positive whole number", *text));
    input.gpus = count;
  }
  if (const auto words = arguments.value("script-args"))
    for (const std::string_view word : split(*words, ' '))
      if (!word.empty()) input.script_args.emplace_back(word);
  if (const auto number = arguments.value("command")) {
    const auto parsed = std::from_chars(number->data(), number->data() + number->size(), input.command);
    if (parsed.ec != std::errc{} || parsed.ptr != number->data() + number->size() || input.command < 1)
      return usage_error(fmt::format("--command is '{}'; wanted 1, 2, ...", *number));
  }
  input.config = arguments.value("config").value_or("");
  input.strict = arguments.has("strict");
  input.settings = arguments.keys;
  for (const std::string& sweep : arguments.values("sweep"))
    input.swept.push_back(answer::full_key_name(sweep.substr(0, sweep.find('='))));
  return input;
}

Result<job::Request> read_input(const Arguments& arguments) {
  PLIMSOLL_TRY(input, input_of(arguments));
  return answer::read_input(std::move(input));
}

Result<lever::World> world_of(const Arguments& arguments) { return answer::read_world(arguments.value("calibration")); }

void say_learned(const lever::World& world, const job::Job& job, const Console& console) {
  for (const std::string& word : world.learned.words(job)) console.warn(word);
}

}  // namespace plimsoll::cli
