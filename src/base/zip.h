// SPDX-License-Identifier: Apache-2.0
// One entry of a zip archive that is at hand, such as those that torch.save writes. Nothing is written to disk; the
// size of what is unpacked is bounded by the caller and by what the archive says of itself.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll {

[[nodiscard]] bool is_zip(std::string_view bytes);

// The first entry whose name is `name` or ends with "/" and `name`; stored or deflated entries up to `largest` bytes.
[[nodiscard]] Result<std::string> read_zip_entry(std::string_view archive, std::string_view name, std::size_t largest);

}  // namespace plimsoll
