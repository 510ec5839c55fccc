// SPDX-License-Identifier: Apache-2.0
// Trainers on JAX, which are recognised and not modelled.
#pragma once

#include <string_view>

#include "base/result.h"
#include "document/node.h"

namespace plimsoll::job {

// The tool whose program this is, or nothing.
[[nodiscard]] std::string_view jax_tool_of_program(std::string_view program);

// The refusal, with the question that can be answered instead; `said` are the settings that are known.
[[nodiscard]] tl::unexpected<Error> not_xla(std::string_view tool, const document::Node& said);

// A table of MaxText or Levanter, and why it is not read.
[[nodiscard]] bool is_jax_config(const document::Node& root);
[[nodiscard]] tl::unexpected<Error> refuse_jax_config(const document::Node& root);

}  // namespace plimsoll::job
