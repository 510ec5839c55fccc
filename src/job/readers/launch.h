// SPDX-License-Identifier: Apache-2.0
// A command line taken apart: what starts it (torchrun, accelerate launch, srun, ...), the program, its arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "document/node.h"
#include "job/draft.h"
#include "job/readers/shell.h"

namespace plimsoll::job {

struct Launch {
  std::string program;  // "pretrain_gpt.py", "swift sft", "verl.trainer.main_ppo"; empty for bare flags
  std::vector<ShellWord> arguments;
  std::vector<ShellWord> launcher;  // the words before the program
  std::string accelerate_config;    // accelerate launch --config_file
  std::string config_needs;         // a variable in that file's name which the script does not set
};

[[nodiscard]] Launch split_command(const ShellCommand& command);

[[nodiscard]] bool is_flag(std::string_view word);
// "--foo-bar=1" is foo_bar.
[[nodiscard]] std::string key_of_flag(std::string_view flag);

struct LaunchFlag {
  std::string written;  // "--foo-bar"
  std::vector<ShellWord> values;
};

// The flags of a command with their values; words that stand alone go to `operands`. An unknown word that may hold
// flags of its own is named in `holes`.
struct LaunchFlags {
  std::vector<LaunchFlag> flags;
  std::vector<ShellWord> operands;
  std::vector<std::string> holes;
};
[[nodiscard]] LaunchFlags read_flags(const std::vector<ShellWord>& words,
                                     bool (*takes_no_value)(const std::string& key));

// The GPUs that launcher, batch system and environment ask for.
void read_launcher(const Launch& launch, const std::vector<std::string>& batch_options,
                   const std::map<std::string, std::string>& environment, Draft& draft);

// The command as a table of its flags; a flag without a value is true.
[[nodiscard]] document::Node table_of(const LaunchFlags& flags);

}  // namespace plimsoll::job
