// SPDX-License-Identifier: Apache-2.0
// A run as canonical keys and values, complete: read_run(nullopt, settings_of(run)) is the same run.
#pragma once

#include <string>
#include <string_view>

#include "rl/read.h"
#include "rl/run.h"

namespace plimsoll::rl {

// In the order of key_table(), "framework" first, keys of the trainer last. A value that is unset is "null".
[[nodiscard]] Settings settings_of(const Run& run);

// The value of a key, "" where it is not among them.
[[nodiscard]] std::string_view setting(const Settings& settings, std::string_view key);
// Replaces or appends.
void put_setting(Settings& settings, std::string_view key, std::string value);

}  // namespace plimsoll::rl
