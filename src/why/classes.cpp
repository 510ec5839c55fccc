// SPDX-License-Identifier: Apache-2.0
#include "why/classes.h"

namespace plimsoll::why {

namespace {

struct Words {
  std::string_view name;
  std::string_view says;
  std::string_view fixes;
};

constexpr std::array<Words, kCauses> kWords = {{
#define PLIMSOLL_CAUSE_WORDS(enumerator, name, says, fixes) {name, says, fixes},
    PLIMSOLL_CAUSES(PLIMSOLL_CAUSE_WORDS)
#undef PLIMSOLL_CAUSE_WORDS
}};

constexpr std::array<std::string_view, kResources> kResourceNames = {
    "unknown", "none", "device", "host", "pinned", "shm", "disk", "descriptors", "budget", "cap", "driver limit"};

}  // namespace

std::string_view resource_name(Resource resource) { return kResourceNames[static_cast<std::size_t>(resource)]; }
std::string_view cause_name(Cause cause) { return kWords[static_cast<std::size_t>(cause)].name; }
std::string_view cause_says(Cause cause) { return kWords[static_cast<std::size_t>(cause)].says; }
std::string_view cause_fixes(Cause cause) { return kWords[static_cast<std::size_t>(cause)].fixes; }

std::optional<Cause> cause_of(std::string_view name) {
  for (std::size_t i = 0; i < kCauses; ++i)
    if (kWords[i].name == name) return static_cast<Cause>(i);
  return std::nullopt;
}

}  // namespace plimsoll::why
