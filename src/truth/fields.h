// SPDX-License-Identifier: Apache-2.0
// The fields that a record format promises. A field of another type is a reason to skip the record: read as
// its default, it would be scored as another job than the one that was measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "document/node.h"

namespace plimsoll::truth {

enum class Want : std::uint8_t { kInteger, kNumber, kText, kFlag, kTable, kList };

struct Field {
  std::string_view path;  // "train.recompute.method"
  Want want;
  bool required = false;  // else absent and null both mean the default
};

// "model.hidden: found a string; wanted an integer", or "" when all are as promised.
[[nodiscard]] std::string first_problem(const document::Node& record, std::span<const Field> fields);

}  // namespace plimsoll::truth
