// SPDX-License-Identifier: Apache-2.0
#include "cli/listing.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::cli {

bool is_asked_for(const Arguments& arguments, const std::vector<std::string>& names) {
  if (arguments.operands.empty()) return true;
  const std::string wanted = lower(arguments.operands[0]);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return lower(name).find(wanted) != std::string::npos; });
}

tl::unexpected<Error> nothing_matches(const Arguments& arguments, std::string_view noun,
                                      const std::vector<std::string>& names) {
  const std::string wanted = arguments.operands.empty() ? std::string{} : arguments.operands[0];
  const std::string meant = nearest(wanted, names);
  return bad_input(fmt::format("no {} has '{}' in its name", noun, wanted),
                   meant.empty() ? std::string{} : fmt::format("did you mean {}?", meant));
}

}  // namespace plimsoll::cli
