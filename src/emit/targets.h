// SPDX-License-Identifier: Apache-2.0
// One writer per target. Writers translate; emit() checks what they wrote by reading it.
#pragma once

#include <vector>

#include "emit/emit.h"
#include "emit/launch.h"
#include "emit/settings.h"

namespace plimsoll::emit {

struct Order {
  const job::Job& job;
  const std::vector<Reason>& reasons;
  std::vector<Variable> environment;
  Nodes nodes;
};

[[nodiscard]] Result<std::vector<File>> write_job_file(const Order& order);
// One per framework, in its folder.
#define PLIMSOLL_ROW(id, name) [[nodiscard]] Result<std::vector<File>> write_##name(const Order& order);
PLIMSOLL_FRAMEWORKS(PLIMSOLL_ROW)
#undef PLIMSOLL_ROW

}  // namespace plimsoll::emit
