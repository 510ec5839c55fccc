// SPDX-License-Identifier: Apache-2.0
// Any text as a plimsoll.toml: it is a list of named jobs with limits that a check can hold, or an error with words.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "answer/check.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > (1U << 16)) return 0;
  const auto list = answer::parse_check_list("plimsoll.toml", {reinterpret_cast<const char*>(data), size});
  if (!list) {
    if (list.error().message.empty()) std::abort();
    return 0;
  }
  if (list->entries.empty()) std::abort();
  for (const answer::CheckedEntry& entry : list->entries) {
    if (entry.name.empty()) std::abort();
    if (entry.limits.headroom.value_or(0) < 0) std::abort();
    if (entry.limits.time && (!std::isfinite(*entry.limits.time) || *entry.limits.time < 0)) std::abort();
    if (entry.limits.max_step_seconds && !std::isfinite(*entry.limits.max_step_seconds)) std::abort();
  }
  return 0;
}
