// SPDX-License-Identifier: Apache-2.0
// --sweep KEY=A,B,C: several make the product of their values, the last one running fastest.
//
//   --sweep tp=1,2 --sweep recompute_modules=[mlp],[mlp,core_attn]  ->  four points of two settings
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "job/read.h"

namespace plimsoll::answer {

// A table of more answers than this is not read by anyone; it is a typing error.
inline constexpr std::size_t kMostSweepPoints = 10'000;

struct SweepAxis {
  std::string key;  // with underscores
  std::vector<std::string> values;
};

using job::Settings;

// Commas inside brackets belong to the value.
[[nodiscard]] Result<SweepAxis> parse_sweep(std::string_view text);

// One Settings per point; a single empty one when there is no axis. A key on two axes is an error.
[[nodiscard]] Result<std::vector<Settings>> sweep_points(const std::vector<std::string>& sweeps);

}  // namespace plimsoll::answer
