// SPDX-License-Identifier: Apache-2.0
#include "rules/rules.h"

#include <algorithm>
#include <array>

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
  static const RuleSet rules = [] {
    const std::array<std::string_view, 7> texts = {
        catalog::kRulesFacts,     catalog::kRulesParallel, catalog::kRulesActivations, catalog::kRulesExperts,
        catalog::kRulesPrecision, catalog::kRulesState,    catalog::kRulesOthers};
    auto read = read_rules(texts);
    // The files are part of the program: a flaw in them is ours, and the tests read them with its message.
    PLIMSOLL_CHECK(read.has_value());
    return *std::move(read);
  }();
  return rules;
}

Checker::Checker(const RuleSet& rules, const job::Job& job) : rules_(rules), lookups_(rules.facts(), job) {
  for (std::size_t i = 0; i < rules.rules().size(); ++i) {
    const Rule& rule = rules.rules()[i];
    if (rule.checked_by != CheckedBy::kJob || !rule.applies_to(job.framework)) continue;
    (rule.severity == Severity::kError ? errors_ : warnings_).push_back(static_cast<std::uint16_t>(i));
  }
}

std::vector<std::uint16_t> Checker::check(const job::Job& job) const {
  const FactSource facts(rules_.facts().facts(), lookups_, job);
  Machine machine;
  std::vector<std::uint16_t> violated;
  for (const auto* indexes : {&errors_, &warnings_})
    for (const std::uint16_t index : *indexes)
      if (machine.run(rules_.rules()[index].condition, facts).is_true()) violated.push_back(index);
  return violated;
}

bool Checker::violates_any_error(const job::Job& job) const {
  const FactSource facts(rules_.facts().facts(), lookups_, job);
  Machine machine;
  return std::any_of(errors_.begin(), errors_.end(), [&](std::uint16_t index) {
    return machine.run(rules_.rules()[index].condition, facts).is_true();
  });
}

std::string Checker::fill(const Message& message, const job::Job& job) const {
  const FactSource facts(rules_.facts().facts(), lookups_, job);
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
    violations.push_back({&rule, checker.fill(rule.wrong, job),
                          rule.printed.empty() ? std::string{} : checker.fill(rule.printed.front(), job)});
  }
  return violations;
}

std::vector<Violation> check(const job::Job& job) { return check(catalogue(), job); }

}  // namespace plimsoll::rules
