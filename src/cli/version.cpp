// SPDX-License-Identifier: Apache-2.0
// Alone in its file, so that a new version compiles one file. CMakeLists.txt defines the number.
#include "cli/program.h"

namespace plimsoll::cli {

std::string_view version() { return PLIMSOLL_VERSION; }

}  // namespace plimsoll::cli
