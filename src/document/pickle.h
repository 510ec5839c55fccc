// SPDX-License-Identifier: Apache-2.0
// A pickled object as a tree: its class by name, its attributes as a table. Nothing is imported, called or looked up:
// what Python would call becomes its arguments ("IntervalStrategy('steps')" is "steps"), so a file that would run code
// in Python is only read here.
#pragma once

#include <string>
#include <string_view>

#include "document/node.h"

namespace plimsoll::document {

struct PickledObject {
  std::string type;  // "transformers.training_args.TrainingArguments"; empty where the root is plain data
  Node state;
};

// Protocols 2 to 5, up to a mebibyte.
[[nodiscard]] Result<PickledObject> parse_pickle(std::string_view bytes);

}  // namespace plimsoll::document
