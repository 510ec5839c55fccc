// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::job {

// "--nodes=4" of the #SBATCH lines of a script.
[[nodiscard]] std::vector<std::string> batch_options_of(std::string_view text);

// What Slurm tells the script of its own options: SLURM_NNODES and its like, where they are numbers.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> variables_of_batch(
    const std::vector<std::string>& options);

// A line of `read`: fields between separators, the rest in the last of `most`.
[[nodiscard]] std::vector<std::string> split_fields(std::string_view text, std::string_view separators,
                                                    std::size_t most);

}  // namespace plimsoll::job
