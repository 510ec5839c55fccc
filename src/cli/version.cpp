// SPDX-License-Identifier: Apache-2.0
// Alone in its file, so that a new version compiles one file. CMakeLists.txt defines the number and makes the header.
#include "cli/program.h"
#include "cli/sources.h"

namespace plimsoll::cli {

std::string_view version() { return PLIMSOLL_VERSION; }

std::string_view sources() { return PLIMSOLL_SOURCES; }

}  // namespace plimsoll::cli
