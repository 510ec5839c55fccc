// SPDX-License-Identifier: Apache-2.0
// What a cause is taken for where it is not what happened. Where the rules leave the second place empty, the answer
// names the neighbour that what is known does not contradict.
#pragma once

#include <optional>
#include <string_view>

#include "why/situation.h"

namespace plimsoll::why {

struct Neighbour {
  Cause cause = Cause::kUnknown;
  std::string_view because;
};

// nullopt where the facts leave no other cause.
[[nodiscard]] std::optional<Neighbour> neighbour_of(Cause first, const Situation& at);

}  // namespace plimsoll::why
