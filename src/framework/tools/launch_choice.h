// SPDX-License-Identifier: Apache-2.0
// Which command of a script trains, and in whose vocabulary its flags are.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "job/format.h"
#include "job/readers/launch.h"
#include "job/readers/shell.h"

namespace plimsoll::job {

struct Candidate {
  const ShellCommand* command = nullptr;
  Launch launch;
  FileKind kind = FileKind::kMegatronArgs;  // in whose vocabulary its flags are
  int known = 0;                            // flags that say something here
  bool by_file = false;                     // its settings are in a file, with overrides on the command line
};

// The command that trains; an error that lists them where there are several, or says what is missing.
[[nodiscard]] Result<Candidate> find_training_command(const Shell& shell, std::string_view text,
                                                      const ReadOptions& options);

// The first argument or variable that the script compares with words of its own and nobody gives, and what to do.
[[nodiscard]] std::pair<std::string, std::string> missing_argument(const Shell& shell, std::string_view text);

}  // namespace plimsoll::job
