// SPDX-License-Identifier: Apache-2.0
// What each framework calls the keys of a run, as a dotted path in its configuration. One table serves the writers,
// the readers and the advice that names a knob.
#pragma once

#include <span>
#include <string_view>

#include "rl/choices.h"

namespace plimsoll::rl {

struct KeyName {
  std::string_view key;   // canonical, of key_table()
  std::string_view path;  // of the framework
};

// In the order in which a configuration is written. Only keys that mean the same there, value for value.
[[nodiscard]] std::span<const KeyName> key_names_in(Framework framework);

// The framework's own name of a key, also where the value is written in another form (GPUs as nodes times GPUs of a
// node); empty where it has no such knob.
[[nodiscard]] std::string_view knob_in(Framework framework, std::string_view key);

}  // namespace plimsoll::rl
