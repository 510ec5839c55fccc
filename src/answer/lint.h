// SPDX-License-Identifier: Apache-2.0
// What would the framework refuse, ignore or waste in a job; and the rules themselves.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "job/request.h"
#include "rules/rules.h"

namespace plimsoll::answer {

struct Lint {
  job::Job job;
  std::vector<rules::Violation> violations;
  std::size_t checked = 0;               // rules of the framework that a job can violate
  std::vector<std::string> not_checked;  // "rules about the GPU: it is not known"
};

[[nodiscard]] bool has_error(const std::vector<rules::Violation>& violations);

[[nodiscard]] Result<Lint> lint(const job::Request& request);
[[nodiscard]] std::string to_json(const Lint& lint);

using Rules = std::vector<const rules::Rule*>;

// Those of a framework that have `text` in id, condition, words or severity; all where it is empty.
[[nodiscard]] Result<Rules> find_rules(const std::string& text, std::optional<job::Framework> framework);
[[nodiscard]] std::string to_json(const Rules& rules);

}  // namespace plimsoll::answer
