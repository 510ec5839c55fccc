// SPDX-License-Identifier: Apache-2.0
// The names in a framework's own files and what becomes of each: a key of the job, nothing, a named
// warning or an error. Read from the tables that the readers use, so the reference cannot differ from them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "job/knobs.h"

namespace plimsoll::cli {

struct FrameworkName {
  std::string name;          // "log_*" stands for every name that starts so
  std::string_view becomes;  // "key", "no effect", "not modelled", "refused"
  std::string meaning;       // the key, or the reason; "" without effect
};

[[nodiscard]] std::vector<FrameworkName> framework_names(job::Framework framework);

[[nodiscard]] std::string framework_names_table(const std::vector<FrameworkName>& names, const Console& console);
[[nodiscard]] std::string framework_names_json(job::Framework framework, const std::vector<FrameworkName>& names);

}  // namespace plimsoll::cli
