// SPDX-License-Identifier: Apache-2.0
// Published tokens per second: no memory figure in them.
#include <fmt/format.h>

#include "truth/record.h"

namespace plimsoll::truth {

Record read_published_throughput(const document::Node& node) {
  Record record;
  record.id = fmt::format("{}-{}-{}-{}", text_of(node, "model"), text_of(node, "system"), text_of(node, "precision"),
                          integer_or(node, "gpus", 0));
  record.groups = {{"framework", text_of(node, "suite")},
                   {"gpu", text_of(node, "system")},
                   {"precision", text_of(node, "precision")}};
  record.skip = "measures throughput only; step time is not predicted";
  return record;
}

}  // namespace plimsoll::truth
