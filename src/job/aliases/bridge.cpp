// SPDX-License-Identifier: Apache-2.0
// Megatron-Bridge's field names that are not canonical keys themselves.
#include "job/aliases/table.h"

namespace plimsoll::job {
const std::vector<Alias>& bridge_aliases() { return megatron_aliases(); }
const std::vector<Alias>& transformers_aliases() {
  static const std::vector<Alias> t;
  return t;
}
const std::vector<Alias>& deepspeed_aliases() {
  static const std::vector<Alias> t;
  return t;
}
const std::vector<Alias>& torchtitan_aliases() {
  static const std::vector<Alias> t;
  return t;
}
}  // namespace plimsoll::job
