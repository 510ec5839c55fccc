// SPDX-License-Identifier: Apache-2.0
// The causes that a diagnosis can name, and the resources that can run out. The names are those of --json and of
// docs/reference/classes.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "why/cause_rows.h"

namespace plimsoll::why {

// What ran out. The first question of a diagnosis: a cause is looked for only among those of its resource.
enum class Resource : std::uint8_t {
  kUnknown,
  kNone,         // nothing did: another kind of failure
  kDevice,       // memory of the accelerator
  kHost,         // memory of the machine or of its cgroup
  kPinned,       // page-locked host memory
  kShared,       // /dev/shm
  kDisk,         // a volume or a quota
  kDescriptors,  // open files
  kBudget,       // what an engine set aside: KV cache, object store
  kCap,          // a limit of this process below the device's memory
  kDriverLimit,  // the largest single block that the driver hands out
};
inline constexpr std::size_t kResources = 11;

// kUnknown: what was given does not say.
enum class Cause : std::uint8_t {
#define PLIMSOLL_CAUSE_ENUMERATOR(enumerator, name, says, fixes) enumerator,
  PLIMSOLL_CAUSES(PLIMSOLL_CAUSE_ENUMERATOR)
#undef PLIMSOLL_CAUSE_ENUMERATOR
};
#define PLIMSOLL_CAUSE_ONE(enumerator, name, says, fixes) +1
inline constexpr std::size_t kCauses = 0 PLIMSOLL_CAUSES(PLIMSOLL_CAUSE_ONE);
#undef PLIMSOLL_CAUSE_ONE

[[nodiscard]] std::string_view resource_name(Resource resource);
[[nodiscard]] std::string_view cause_name(Cause cause);
[[nodiscard]] std::optional<Cause> cause_of(std::string_view name);
// One clause: "the tensors of forward and backward do not fit".
[[nodiscard]] std::string_view cause_says(Cause cause);
// Ids of its fixes, separated by blanks; "" where figures or the phase decide.
[[nodiscard]] std::string_view cause_fixes(Cause cause);

}  // namespace plimsoll::why
