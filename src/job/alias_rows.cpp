// SPDX-License-Identifier: Apache-2.0
#include "job/alias_rows.h"

namespace plimsoll::job {

std::vector<Alias> with_names_without_effect(std::span<const Alias> rows, std::string_view names) {
  constexpr std::string_view kSpaces = " \n";
  std::vector<Alias> table(rows.begin(), rows.end());
  for (std::size_t at = names.find_first_not_of(kSpaces); at != std::string_view::npos;) {
    const std::size_t end = names.find_first_of(kSpaces, at);
    table.push_back(Alias{names.substr(at, end - at), AliasKind::kNoEffect});
    at = names.find_first_not_of(kSpaces, end);
  }
  // No framework has these; rules and sizes that depend on a version read them.
  for (const std::string_view name :
       {"torch_version", "te_version", "megatron_version", "deepspeed_version", "compute_capability"})
    table.push_back(Alias{name, AliasKind::kNoEffect});
  return table;
}

}  // namespace plimsoll::job
