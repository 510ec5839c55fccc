// SPDX-License-Identifier: Apache-2.0
// Enough of a shell to read launch scripts without running them: quoting, continuation lines, arrays,
// variables with defaults, integer arithmetic, exports. What a script asks of the machine (commands,
// arguments, variables set elsewhere) stays unknown and is named; a variable that only some branch of a
// condition sets is unknown too, because which branch runs is not.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::job {

struct ShellWord {
  std::string text;
  std::vector<std::string> unknown;  // variables whose values are not in the script
};

struct ShellCommand {
  std::vector<ShellWord> words;
  int line = 0;
};

struct Shell {
  std::vector<ShellCommand> commands;              // in file order, assignments left out
  std::map<std::string, std::string> environment;  // exported, where the value is known
  std::vector<std::string> batch_options;          // "--nodes=4" of #SBATCH lines
};

[[nodiscard]] Result<Shell> read_shell(std::string_view text);

}  // namespace plimsoll::job
