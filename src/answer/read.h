// SPDX-License-Identifier: Apache-2.0
// What was understood of the files of a job, key by key with where each came from, and what is missing.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "job/request.h"
#include "rules/rules.h"

namespace plimsoll::answer {

struct Understood {
  job::Job job;
  std::vector<job::KeyOrigin> keys;  // those that a file or flag gives, or all
  std::vector<std::string> missing;  // what keeps the job from being answered
  // What the framework would refuse or warn of, as fit finds it; of a job from which nothing is missing.
  std::vector<rules::Violation> violations = {};
};

enum class Defaults { kHidden, kShown };  // keys that the framework decides

[[nodiscard]] Result<Understood> understand(const job::Request& request, Defaults defaults);
[[nodiscard]] std::string to_json(const Understood& understood);

// "job.toml:4", "default of megatron-lm".
[[nodiscard]] std::string source_of(const job::KeyOrigin& key);

}  // namespace plimsoll::answer
