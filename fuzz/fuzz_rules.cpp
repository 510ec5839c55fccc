// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of rules, as a condition, and as a job whose problems are collected: an error with a
// message, or rules that can be checked against the job and whose texts can be filled in, never a crash or a hang.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "job/read.h"
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

// A job that does not hold together is held against every rule of the catalogue.
void check_job(std::string_view text) {
  std::vector<job::Problem> problems;
  job::ReadOptions options;
  options.problems = &problems;
  if (text.size() % 2 == 1) options.gpus = 64;
  if (text.size() % 3 == 1) options.model = "mixtral-8x7b";
  const Result<job::Job> job = job::read_job({{"no-such-folder/input", std::string(text)}}, options);
  if (!job) return;
  for (const rules::Violation& violation : rules::check(*job))
    if (violation.wrong.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = rules::read_rules({&text, 1});
  if (!file && file.error().message.empty()) std::abort();
  if (file) check_all(*file);
  check_job(text);

  if (text.find("'''") != std::string_view::npos) return 0;
  const std::string rule =
      "[facts]\nx = 'number'\nl = 'list'\nt = 'text'\nv = 'version'\n[[rule]]\nid = 'T'\n"
      "frameworks = 'all'\nwrong = 'w'\nfix = 'f'\nwhen = '''" +
      std::string(text) + "'''\n";
  const std::string_view view = rule;
  const auto condition = rules::read_rules({&view, 1});
  if (!condition && condition.error().message.empty()) std::abort();
  if (condition) check_all(*condition);
  return 0;
}
