// SPDX-License-Identifier: Apache-2.0
// The answers that a self-contained file holds: every question that the page asks about its inputs before somebody
// turns a knob, under the name by which the page looks it up.
#pragma once

#include <string>

#include "serve/shelf.h"
#include "serve/site.h"

namespace plimsoll::serve {

// A JSON object: {"version": ..., "answers": {question: answer}}. A refused question keeps its refusal.
[[nodiscard]] std::string bake(Site& site, const Shelf& shelf, const std::string& version);

}  // namespace plimsoll::serve
