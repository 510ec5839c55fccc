// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::job {

// "--nodes=4" of the #SBATCH lines of a script.
[[nodiscard]] std::vector<std::string> batch_options_of(std::string_view text);

// A line of `read`: fields between separators, the rest in the last of `most`.
[[nodiscard]] std::vector<std::string> split_fields(std::string_view text, std::string_view separators,
                                                    std::size_t most);

}  // namespace plimsoll::job
