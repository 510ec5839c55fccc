// SPDX-License-Identifier: Apache-2.0
// How a launch script says that it is started: an example in its comments, and the words that it knows for a variable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::job {

// The words behind the script's own name in the first comment that shows a whole call ("# sh train.sh dsw 7B 1 8");
// none where no comment does, or where the call has holes to fill in ("<size>").
[[nodiscard]] std::vector<std::string> arguments_in_comment(std::string_view text, std::string_view path);

// Words that the script compares a variable, or the argument behind it, with: "0", "z1" of [ $TEST == "z1" ] or of a
// case. In the order in which they stand, at most a dozen.
[[nodiscard]] std::vector<std::string> known_words(std::string_view text, std::string_view variable);

}  // namespace plimsoll::job
