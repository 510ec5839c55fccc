// SPDX-License-Identifier: Apache-2.0
// From a question to the words of a command line. Only files of the shelf and keys of a job or a run pass: a flag that
// writes, reads another file or looks at a process cannot be asked for.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "serve/query.h"
#include "serve/shelf.h"

namespace plimsoll::serve {

// The paths of the query's files, then its keys as flags.
[[nodiscard]] Result<std::vector<std::string>> words_of(const Query& query, const Shelf& shelf);

}  // namespace plimsoll::serve
