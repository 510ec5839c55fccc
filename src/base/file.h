// SPDX-License-Identifier: Apache-2.0
// Whole files as strings, with a limit, so that a wrong path or a device cannot fill memory.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace plimsoll {

inline constexpr std::int64_t kMaxTextFile = 256LL << 20;

// Reads a file; "-" is standard input. A file that cannot be opened is bad input; the message names it.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::int64_t limit = kMaxTextFile);

[[nodiscard]] bool file_exists(const std::string& path);

// An error that says what else lies there: nothing, a folder, a device, a pipe.
[[nodiscard]] Status check_regular_file(const std::string& path);

// The folder part of a path, "." when there is none.
[[nodiscard]] std::string parent_folder(const std::string& path);

// Devices give bytes without an end, but for terminals and /dev/null. Files, pipes and sockets have one.
[[nodiscard]] bool is_endless(int descriptor);

}  // namespace plimsoll
