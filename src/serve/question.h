// SPDX-License-Identifier: Apache-2.0
// From what the page asks to what answer/ is asked. Only files of the shelf and keys of a job or a run pass: a path in
// place of a name cannot be read through the page.
#pragma once

#include <string>
#include <vector>

#include "answer/input.h"
#include "answer/recording.h"
#include "answer/rl.h"
#include "base/result.h"
#include "serve/query.h"
#include "serve/shelf.h"

namespace plimsoll::serve {

[[nodiscard]] Result<answer::Input> input_of(const Query& query, const Shelf& shelf);
[[nodiscard]] Result<answer::RlInput> run_of(const Query& query, const Shelf& shelf);

[[nodiscard]] Result<answer::RecordingConditions> conditions_of(const Query& query);

// The one file of a query, of that kind.
[[nodiscard]] Result<Item> only_file(const Query& query, const Shelf& shelf, Kind kind);
[[nodiscard]] Result<std::vector<std::string>> paths_of(const Query& query, const Shelf& shelf, Kind kind);

// Two queries of the same text are about the same job.
[[nodiscard]] std::string identity_of(const Query& query);

}  // namespace plimsoll::serve
