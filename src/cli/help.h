// SPDX-License-Identifier: Apache-2.0
// Help texts, made from the tables of verbs and flags.
#pragma once

#include <span>
#include <string>

#include "cli/verb.h"

namespace plimsoll::cli {

// What `plimsoll help` prints: the verbs with one line each.
[[nodiscard]] std::string help_of_program(std::span<const Verb* const> verbs, int width);

// -h: usage and flags. --help (is_long): details and examples as well.
[[nodiscard]] std::string help_of_verb(const Verb& verb, bool is_long, int width);

}  // namespace plimsoll::cli
