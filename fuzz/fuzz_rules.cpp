// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of rules, and as a condition: an error with a message, or rules that can be checked
// against a job and whose texts can be filled in, never a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rules/rules.h"

using namespace plimsoll;

namespace {

void check_all(const rules::RuleSet& set) {
  for (const auto framework : {job::Framework::kMegatronLm, job::Framework::kDeepSpeed}) {
    job::Job job = job::defaults_for(framework);
    job.cluster.gpus = 16;
    job.parallel.tensor = 4;
    job.batch.seq_length = 4096;
    job.parallel.layout = "Et|tL";
    for (const rules::Violation& violation : rules::check(set, job))
      if (violation.rule == nullptr) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = rules::read_rules({&text, 1});
  if (!file && file.error().message.empty()) std::abort();
  if (file) check_all(*file);

  if (text.find("'''") != std::string_view::npos) return 0;
  const std::string rule = "[facts]\nx = 'number'\nl = 'list'\nt = 'text'\nv = 'version'\n[[rule]]\nid = 'T'\n"
                           "frameworks = 'all'\nwrong = 'w'\nfix = 'f'\nwhen = '''" +
                           std::string(text) + "'''\n";
  const std::string_view view = rule;
  const auto condition = rules::read_rules({&view, 1});
  if (!condition && condition.error().message.empty()) std::abort();
  if (condition) check_all(*condition);
  return 0;
}
