// SPDX-License-Identifier: Apache-2.0
// The words of a rule for those who refuse a job before its rules are checked (job/refusal.h).
#include "job/refusal.h"
#include "rules/rules.h"

namespace plimsoll::job {

RuleText text_of_rule(const Job& job, std::string_view rule) {
  const rules::RuleSet& catalogue = rules::catalogue();
  const rules::Rule* found = catalogue.find(rule);
  PLIMSOLL_CHECK(found != nullptr);  // a test holds that every rule which is named here is in the catalogue
  const rules::Checker checker(catalogue, job);
  RuleText text{checker.fill(found->wrong, job), {}, found->fix};
  if (!found->applies_to(job.framework)) return text;  // what another framework prints is of no use here
  for (const rules::Message& message : found->printed)
    text.printed += (text.printed.empty() ? "" : "\" or \"") + checker.fill(message, job);
  return text;
}

}  // namespace plimsoll::job
