// SPDX-License-Identifier: Apache-2.0
// What the verbs that list a catalogue share: the optional TEXT that a row must contain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/arguments.h"

namespace plimsoll::cli {

// Whether any of the names contains the verb's operand, in any case; true when there is none.
[[nodiscard]] bool is_asked_for(const Arguments& arguments, const std::vector<std::string>& names);

// The error of a list that is empty: nothing contains the TEXT. `noun` is what was listed: "model".
[[nodiscard]] tl::unexpected<Error> nothing_matches(const Arguments& arguments, std::string_view noun,
                                                    const std::vector<std::string>& names);

}  // namespace plimsoll::cli
