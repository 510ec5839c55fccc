// SPDX-License-Identifier: Apache-2.0
// Checks that a rule of the catalogue words. The catalogue is the only text of a rule: a check that a job must pass
// before it can be priced names the rule, and what is said of it is looked up when somebody is told. A search, which
// tells nobody, completes its candidates tersely.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "job/job.h"

namespace plimsoll::job {

// An error that names a rule, to be worded by explained().
[[nodiscard]] inline tl::unexpected<Error> refused(std::string_view rule) { return bad_input(std::string(rule)); }

// complete() with rules named and not worded, in its error and in the job's warnings.
[[nodiscard]] Status complete_tersely(Job& job);
// The same for a job that was complete and has changed since, but not in its model.
[[nodiscard]] Status complete_again_tersely(Job& job);

// The same with the words of the catalogue.
[[nodiscard]] Status explained(Status done, Job& job);

// What the catalogue says of a rule for this job: what is wrong, the rule, what the framework prints, the fix.
// Defined by rules, which is built on the job.
struct RuleText {
  std::string wrong;
  std::string printed;  // empty where the framework prints nothing
  std::string fix;
};
[[nodiscard]] RuleText text_of_rule(const Job& job, std::string_view rule);

}  // namespace plimsoll::job
