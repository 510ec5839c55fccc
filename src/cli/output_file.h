// SPDX-License-Identifier: Apache-2.0
// Files that a verb writes because it was asked to: pictures, configurations. What is there already stays, unless
// --force says otherwise.
#pragma once

#include "base/write.h"
#include "cli/arguments.h"

namespace plimsoll::cli {

inline constexpr const char* kForceHelp = "replace files that exist; without it they are kept";

[[nodiscard]] inline Existing existing_files(const Arguments& arguments) {
  return arguments.has("force") ? Existing::kReplace : Existing::kKeep;
}

}  // namespace plimsoll::cli
