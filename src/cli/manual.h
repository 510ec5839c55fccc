// SPDX-License-Identifier: Apache-2.0
// Pages for man(1), made from the tables of verbs, flags and keys.
#pragma once

#include <span>
#include <string>

#include "cli/verb.h"

namespace plimsoll::cli {

[[nodiscard]] std::string manual_of_program(std::span<const Verb* const> verbs, std::string_view version);
[[nodiscard]] std::string manual_of_verb(const Verb& verb, std::string_view version);

}  // namespace plimsoll::cli
