// SPDX-License-Identifier: Apache-2.0
// plimsoll lint: what would the framework refuse, ignore or waste in this job?
#include <fmt/format.h>

#include "answer/lint.h"
#include "cli/job_input.h"
#include "cli/lint_report.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

Result<ExitCode> lint_job(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty() && !arguments.has("model"))
    return usage_error("a job is missing; wanted a file, or --model with keys",
                       "plimsoll lint job.toml; plimsoll lint --rules lists the rules");
  PLIMSOLL_TRY(request, read_input(arguments));
  PLIMSOLL_TRY(lint, answer::lint(request));
  console.print(arguments.has("json") ? answer::to_json(lint)
                                      : fold_prose(lint_report(lint, console), console.prose_width));
  for (const std::string& text : lint.not_checked) console.warn(fmt::format("not checked: {}", text));
  if (!lint.violations.empty())
    console.next(fmt::format("plimsoll lint --explain {}", lint.violations.front().rule->id));
  const bool fails = answer::has_error(lint.violations) || (arguments.has("strict") && !lint.violations.empty());
  return fails ? ExitCode::kNo : ExitCode::kYes;
}

Result<ExitCode> list_rules(const Arguments& arguments, const Console& console) {
  std::optional<job::Framework> framework;
  if (const auto name = arguments.value("framework")) {
    PLIMSOLL_TRY(named, answer::framework_named(*name));
    framework = named;
  }
  if (arguments.operands.size() > 1) return usage_error("--rules takes one TEXT at most");
  PLIMSOLL_TRY(rules, answer::find_rules(arguments.operand(), framework));
  console.print(arguments.has("json") ? answer::to_json(rules) : rules_table(rules, console));
  return ExitCode::kYes;
}

Result<ExitCode> explain(const std::string& id, const Arguments& arguments, const Console& console) {
  const rules::Rule* rule = rules::catalogue().find(id);
  if (rule == nullptr)
    return usage_error(fmt::format("--explain is '{}'; there is no such rule", id), "plimsoll lint --rules lists them");
  console.print(arguments.has("json") ? answer::to_json(answer::Rules{rule}) : rule_report(*rule, console));
  return ExitCode::kYes;
}

Result<ExitCode> run_lint(const Arguments& arguments, const Console& console) {
  if (const auto id = arguments.value("explain")) return explain(*id, arguments, console);
  if (arguments.has("rules")) return list_rules(arguments, console);
  return lint_job(arguments, console);
}

std::vector<Flag> flags_of_lint() {
  std::vector<Flag> all = job_flags();
  std::erase_if(all, [](const Flag& flag) { return flag.name == "strict"; });
  const std::vector<Flag> own = {
      {.name = "strict", .argument = "", .help = "warnings make the exit code 1, too; unknown keys are refused"},
      {.name = "rules", .argument = "", .help = "list the rules, or those with TEXT in them, instead"},
      {.name = "explain", .argument = "ID", .help = "one rule with its condition and examples instead"},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace

extern const Verb kLint;
const Verb kLint = {
    .name = "lint",
    .summary = "what would the framework refuse, ignore or waste in a job",
    .operands = "[FILE...]",
    .most_operands = -1,
    .details =
        "Reads a job as fit does and holds it against the rules of its framework. An error is what the framework "
        "stops at, with what it would print; a warning is an option that it changes or ignores, or that wastes memory "
        "or time. The frameworks stop at the first violation; lint shows all of them, each with its fix.\n"
        "\n"
        "Some rules depend on versions; state those that you know: --torch-version 2.9, --te-version 2.8, "
        "--megatron-version 0.16. Environment variables are read from launch scripts and job files; a launch script is "
        "taken as whole, so what it does not export is not set.\n"
        "\n"
        "Exit code 0 when no error was found, 1 when one was (with --strict: or a warning), 3 when the job cannot be "
        "read.",
    .flags = flags_of_lint(),
    .takes_keys = true,
    .reads_ahead = true,
    .examples = {{"plimsoll lint job.toml", "everything that is wrong with a job file"},
                 {"plimsoll lint train.sh --gpu h100 --gpus 64", "a launch script of Megatron-LM"},
                 {"plimsoll lint --rules offload", "the rules about offloading"},
                 {"plimsoll lint --explain R115", "one rule, with an example that breaks it"}},
    .run = run_lint,
};

}  // namespace plimsoll::cli
