// SPDX-License-Identifier: Apache-2.0
// How far two spellings are apart.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll {

// Letters to insert, delete or replace to make one word the other. Takes time with the product of the lengths.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace plimsoll
