// SPDX-License-Identifier: Apache-2.0
// The answers that a self-contained file holds: every question that the page asks about its inputs before somebody
// turns a knob, under the name by which the page looks it up.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "serve/shelf.h"
#include "serve/site.h"

namespace plimsoll::serve {

struct Baked {
  std::string text;                  // {"version": ..., "answers": {question: answer}}; a refused one keeps its refusal
  std::vector<std::string> refused;  // "plan: why there is none", for whoever makes the file
};

// An error where an input has no answer at all; a panel of it that is refused is shown as such.
[[nodiscard]] Result<Baked> bake(Site& site, const Shelf& shelf, const std::string& version);

}  // namespace plimsoll::serve
