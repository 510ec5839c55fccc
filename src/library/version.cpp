// SPDX-License-Identifier: Apache-2.0
#include <plimsoll/answer.h>

#include "cli/program.h"

namespace plimsoll::api {

std::string version() { return std::string(cli::version()); }

}  // namespace plimsoll::api
