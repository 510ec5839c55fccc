// SPDX-License-Identifier: Apache-2.0
// What srun hands to the ranks of what a script exports.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "job/readers/shell.h"

namespace plimsoll::job {

struct PassedOn {
  std::map<std::string, std::string> environment;  // as the ranks see it
  std::vector<std::string> lost;                   // exported by the script and kept from them
  std::string by;                                  // "srun --export=NONE"
};

// `launcher`: the words that start the program. Without srun everything reaches it. srun's own --export decides, then
// SLURM_EXPORT_ENV, which sbatch sets from its --export and scripts unset (Slurm's manual pages of srun and sbatch).
[[nodiscard]] PassedOn pass_on(const std::vector<ShellWord>& launcher, const std::vector<std::string>& batch_options,
                               std::string_view script, std::map<std::string, std::string> environment);

// The same for the first command of a script that srun starts; nothing is lost in a script that cannot be followed.
[[nodiscard]] PassedOn pass_on(std::string_view script);

}  // namespace plimsoll::job
