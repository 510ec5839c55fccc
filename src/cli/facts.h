// SPDX-License-Identifier: Apache-2.0
// What is true of every verb: exit codes, variables of the environment, files. Help and manual pages print the same
// rows.
#pragma once

#include <span>
#include <string_view>

namespace plimsoll::cli {

struct Entry {
  std::string_view name;
  std::string_view means;
};

[[nodiscard]] std::span<const Entry> exit_codes();
[[nodiscard]] std::span<const Entry> environment_variables();
[[nodiscard]] std::span<const Entry> files();

}  // namespace plimsoll::cli
