// SPDX-License-Identifier: Apache-2.0
// What a question names, and the request that comes of it: files, a model of the catalogue, settings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "job/request.h"
#include "lever/world.h"

namespace plimsoll::answer {

using job::Settings;

struct Input {
  std::vector<std::string> operands;  // files, "-" for standard input, or the name of a model
  std::string framework;              // "" where the files say it
  std::string model;                  // a name of the catalogue, or the path of a config.json
  std::string gpu;
  std::optional<std::int64_t> gpus;
  std::vector<std::string> script_args;  // what a launch script is started with
  int command = 0;                       // which training command of a script; 0: the one that runs
  std::string config;                    // which configuration of a file that holds several
  bool strict = false;                   // unknown keys are errors
  Settings settings;                     // keys that overrule the files, by their full names
  std::vector<std::string> swept;        // keys that get their values later: nothing is assumed for them
};

[[nodiscard]] Result<job::Request> read_input(Input input);
// The same of texts that are at hand; operands are not read.
[[nodiscard]] Result<job::Request> read_sources(std::vector<job::InputFile> files, Input input);

// The key behind a short name of the glossary (tp, pp, vpp, cp, ep, etp); any other name is returned as it is.
[[nodiscard]] std::string full_key_name(std::string_view name);

// The framework of that name, or the list of those that there are.
[[nodiscard]] Result<job::Framework> framework_named(const std::string& name);

// The half precision that people train in on this GPU: "bf16", or "fp16" where it has no bf16.
[[nodiscard]] std::string usual_precision(const std::string& gpu);

// The built-in calibration, or that of a file.
[[nodiscard]] Result<lever::World> read_world(const std::optional<std::string>& calibration);

}  // namespace plimsoll::answer
