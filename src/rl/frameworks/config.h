// SPDX-License-Identifier: Apache-2.0
// A run as the configuration that launches it in its framework, every line with its reason, and back. What a framework
// has no key for (lengths of samples, the GPU) stands in comments "# plimsoll: key = value", which are read back too.
// Invariant: write_config() reads what it wrote; a file that does not give the same run is an error, never handed out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rl/read.h"
#include "rl/run.h"

namespace plimsoll::rl {

struct ConfigFile {
  std::string name;  // "run.yaml", "run.sh", "rl.toml"
  std::string text;
  bool executable = false;
};

// Why a key has its value; keys without a reason are commented with what they mean.
struct KeyReason {
  std::string key;  // canonical
  std::string text;
};

// The completed run in the configuration of run.framework. What the framework cannot do is an error that names the key.
[[nodiscard]] Result<ConfigFile> write_config(const Run& run, const std::vector<KeyReason>& reasons = {});

// Whether run.framework's own configuration carries these settings of the trainer: what it would have to leave to a
// comment, its launcher never hears of. `run` is complete.
[[nodiscard]] bool can_be_told(const Run& run, const Settings& trainer);

// GPUs that a pool grows by in run.framework: whole nodes where it counts nodes, else 1.
[[nodiscard]] std::int64_t pool_unit(const Run& run);
// Whether run.framework can be told of the two pools.
[[nodiscard]] Status check_pools(const Run& run);

struct ConfigSettings {
  Settings settings;                 // with "framework"; for read_run()
  std::vector<std::string> ignored;  // paths of the file that say nothing about speed or memory, or are not known here
  std::vector<std::string> assumed;  // what no such file has, and what is taken for it
};

// The keys that a framework's own configuration sets. Unset ones keep the framework's defaults. `given` are keys that
// flags decide: what the file leaves open about them is no error.
[[nodiscard]] Result<ConfigSettings> read_config_settings(Framework framework, std::string_view name,
                                                          std::string_view text, const Settings& given = {});

// The whole run; overrides win. `path` names the file in messages and is where relative paths start.
[[nodiscard]] Result<Run> read_config(Framework framework, const std::string& path, std::string_view text,
                                      const Settings& overrides = {});

// Whose configuration this looks like: a TOML, YAML or shell file with keys that one framework has and others do not.
[[nodiscard]] std::optional<Framework> recognise_config(std::string_view text);

}  // namespace plimsoll::rl
