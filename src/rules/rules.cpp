// SPDX-License-Identifier: Apache-2.0
#include "rules/rules.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"

namespace plimsoll::catalog {
// catalog/rules-*.toml, embedded by cmake/embed.cmake
extern const std::string_view kRulesFacts;
extern const std::string_view kRulesParallel;
extern const std::string_view kRulesActivations;
extern const std::string_view kRulesExperts;
extern const std::string_view kRulesPrecision;
extern const std::string_view kRulesState;
extern const std::string_view kRulesOthers;
extern const std::string_view kRulesAdvice;
}  // namespace plimsoll::catalog

namespace plimsoll::rules {

bool Rule::applies_to(job::Framework framework) const {
  return std::find(frameworks.begin(), frameworks.end(), framework) != frameworks.end();
}

std::string_view name_of(Severity severity) { return severity == Severity::kError ? "error" : "warning"; }

const Rule* RuleSet::find(std::string_view id) const {
  for (const Rule& rule : rules_)
    if (equals_ignoring_case(rule.id, id)) return &rule;
  return nullptr;
}

const RuleSet& catalogue() {
  // Never destroyed: at the end of the program that would cost what a tenth of reading them does.
  static const RuleSet& rules = *[] {
    const std::array<std::string_view, 8> texts = {
        catalog::kRulesFacts,     catalog::kRulesParallel, catalog::kRulesActivations, catalog::kRulesExperts,
        catalog::kRulesPrecision, catalog::kRulesState,    catalog::kRulesOthers,      catalog::kRulesAdvice};
    auto read = read_rules(texts);
    // The files are part of the program: a flaw in them is ours, and the tests read them with its message.
    PLIMSOLL_CHECK(read.has_value());
    return new RuleSet(*std::move(read));
  }();
  return rules;
}

Checker::Checker(const RuleSet& rules, const job::Job& job) : rules_(rules), lookups_(rules.facts(), job) {
  const FactSource facts(rules.facts(), lookups_, job);
  Machine machine;
  for (std::size_t i = 0; i < rules.rules().size(); ++i) {
    const Rule& rule = rules.rules()[i];
    if (rule.checked_by != CheckedBy::kJob || !rule.applies_to(job.framework)) continue;
    if (!machine.can_be_true(rule.condition, facts)) continue;
    (rule.severity == Severity::kError ? errors_ : warnings_)
        .push_back(place(rule, static_cast<std::uint16_t>(i), facts));
  }
}

Checker::Placed Checker::place(const Rule& rule, std::uint16_t index, const FactSource& facts) {
  const std::size_t begin = code_.size();
  const std::size_t first_constant = constants_.size();
  constants_.insert(constants_.end(), rule.condition.constants().begin(), rule.condition.constants().end());
  for (Instruction instruction : rule.condition.code()) {
    std::size_t argument = instruction.argument;
    if (instruction.op == Op::kConstant) argument += first_constant;
    if (instruction.op == Op::kFact && !facts.varies(argument)) {
      constants_.push_back(facts.load(argument));
      instruction.op = Op::kConstant;
      argument = constants_.size() - 1;
    }
    PLIMSOLL_CHECK(argument <= std::numeric_limits<std::uint16_t>::max());  // read_rules() bounds them
    instruction.argument = static_cast<std::uint16_t>(argument);
    code_.push_back(instruction);
  }
  return {begin, code_.size() - begin, index};
}

bool Checker::is_violated(const Placed& placed, Machine& machine, const FactSource& facts) const {
  return machine.run(std::span(code_).subspan(placed.begin, placed.size), constants_, facts).is_true();
}

std::vector<std::uint16_t> Checker::check(const job::Job& job) const {
  const FactSource facts(rules_.facts(), lookups_, job);
  Machine machine;
  std::vector<std::uint16_t> violated;
  for (const auto* list : {&errors_, &warnings_})
    for (const Placed& placed : *list)
      if (is_violated(placed, machine, facts)) violated.push_back(placed.rule);
  return violated;
}

bool Checker::violates_any_error(const job::Job& job) const {
  const FactSource facts(rules_.facts(), lookups_, job);
  Machine machine;
  return std::any_of(errors_.begin(), errors_.end(),
                     [&](const Placed& placed) { return is_violated(placed, machine, facts); });
}

std::string Checker::fill(const Message& message, const job::Job& job) const {
  const FactSource facts(rules_.facts(), lookups_, job);
  Machine machine;
  std::string text = message.literals.front();
  for (std::size_t i = 0; i < message.holes.size(); ++i)
    text += to_text(machine.run(message.holes[i], facts)) + message.literals[i + 1];
  return text;
}

std::vector<Violation> check(const RuleSet& rules, const job::Job& job) {
  const Checker checker(rules, job);
  std::vector<Violation> violations;
  for (const std::uint16_t index : checker.check(job)) {
    const Rule& rule = rules.rules()[index];
    violations.push_back({&rule, checker.fill(rule.wrong, job), {}});
    for (const Message& message : rule.printed) violations.back().prints.push_back(checker.fill(message, job));
  }
  return violations;
}

std::vector<Violation> check(const job::Job& job) { return check(catalogue(), job); }

}  // namespace plimsoll::rules
