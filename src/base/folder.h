// SPDX-License-Identifier: Apache-2.0
// What lies in a folder. std::filesystem::directory_iterator ends the program where there is no memory for a name: its
// steps are noexcept in libstdc++ and allocate. Here std::bad_alloc reaches the caller.
#pragma once

#include <string>
#include <vector>

namespace plimsoll {

// Names without "." and "..", in byte order; none where the folder cannot be read.
[[nodiscard]] std::vector<std::string> names_in(const std::string& folder);

}  // namespace plimsoll
