// SPDX-License-Identifier: Apache-2.0
// Patterns of the shell: * ? [abc], as case, [[ == ]] and ${x%...} use them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::job {

[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

// ${x#p}, ${x##p}, ${x%p}, ${x%%p}: the text without the shortest or longest matching part.
[[nodiscard]] std::string without_prefix(std::string_view text, std::string_view pattern, bool longest);
[[nodiscard]] std::string without_suffix(std::string_view text, std::string_view pattern, bool longest);

// ${x/from/to}; `from` without wild cards, nothing where it has some.
[[nodiscard]] std::optional<std::string> with_replaced(std::string_view text, std::string_view from,
                                                       std::string_view to, bool all);

}  // namespace plimsoll::job
