// SPDX-License-Identifier: Apache-2.0
// Puts a framework's alias table together from rows that mean something and bare names that do not.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "job/keys.h"

namespace plimsoll::job {

// `names` are separated by white space.
[[nodiscard]] std::vector<Alias> with_names_without_effect(std::span<const Alias> rows, std::string_view names);

}  // namespace plimsoll::job
