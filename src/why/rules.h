// SPDX-License-Identifier: Apache-2.0
// The second question of a diagnosis: by which mechanism did the resource run out. A rule is one row: a cause, a
// condition on what is known, a weight in units of log-odds, and the reason in words. Weights of the rows that hold are
// summed; the sums become probabilities. A cause that no row speaks for is no candidate, one that a row excludes is
// out.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "why/situation.h"

namespace plimsoll::why {

struct Rule {
  Cause cause = Cause::kUnknown;
  double weight = 0;  // positive speaks for the cause, negative against it
  bool (*holds)(const Situation&) = nullptr;
  std::string_view because;
  bool is_prior = false;  // true of every such event: its reason is given only where there is no other
};

// Impossible on arithmetic: no weight can outvote it.
inline constexpr double kExcluded = -100;

[[nodiscard]] std::span<const Rule> device_rules();   // figures and holders
[[nodiscard]] std::span<const Rule> phase_rules();    // what the run was doing, what went before
[[nodiscard]] std::span<const Rule> special_rules();  // messages that are not an allocator's
[[nodiscard]] std::span<const Rule> host_rules();     // host, pinned and shared memory, disk, descriptors, budgets
[[nodiscard]] std::span<const Rule> other_rules();    // nothing ran out, or nobody knows

// The rules that are asked where `resource` ran out.
struct Ballot {
  std::array<double, kCauses> score{};
  std::array<bool, kCauses> named{};
  std::array<std::string_view, kCauses> because{};
};
[[nodiscard]] Ballot weigh(const Situation& at);

}  // namespace plimsoll::why
