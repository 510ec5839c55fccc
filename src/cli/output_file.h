// SPDX-License-Identifier: Apache-2.0
// A file that a verb writes because it was asked to: a picture, a configuration.
#pragma once

#include <string>

#include "base/result.h"

namespace plimsoll::cli {

// The error says which path, and why it cannot be written.
[[nodiscard]] Status write_text(const std::string& path, const std::string& text);

}  // namespace plimsoll::cli
