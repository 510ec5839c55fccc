// SPDX-License-Identifier: Apache-2.0
// What frameworks refuse, ignore or waste, as data (catalog/rules-*.toml) and compiled conditions.
//
//   for (const Violation& violation : rules::check(job)) ...        texts filled in, for people
//
//   rules::Checker checker(rules::catalogue(), job);                looks strings up once
//   if (checker.violates_any_error(candidate)) ...                  then reads fields only
//
// A Checker is made for one framework, model, GPU, environment and set of given keys (Job::given, Job::stated);
// candidates may differ from its job in every other field. Rules that none of them can violate are left out
// once. Whoever varies a key that a rule asks for with set(given.KEY), such as recompute_method, adds it to
// Job::given of the job that the Checker is made from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "job/job.h"
#include "rules/expression.h"
#include "rules/facts.h"

namespace plimsoll::rules {

enum class Severity : std::uint8_t {
  kError,    // the framework stops
  kWarning,  // it runs, but warns, ignores the option, or wastes memory or time
};
enum class CheckedBy : std::uint8_t {
  kJob,  // the condition
  kLog,  // only a run shows it: the diagnosis of logs looks for what the framework prints
};

// Key and value pairs laid over a base job.
using Example = std::vector<std::pair<std::string, document::Node>>;

// A text with {expressions} in it.
struct Message {
  std::vector<std::string> literals;  // one more than there are holes
  std::vector<Program> holes;
};

struct Rule {
  std::string id;  // of the facts: "R001"
  Severity severity = Severity::kError;
  CheckedBy checked_by = CheckedBy::kJob;
  std::vector<job::Framework> frameworks;
  std::string versions;             // in words, where behaviour differs; may be empty
  std::string when;                 // the condition as written
  Program condition;                // empty: kLog
  std::vector<std::string> prints;  // as written, alternatives; empty: the framework prints nothing
  std::vector<Message> printed;     // the same, compiled
  bool vague = false;               // what it prints could come from anywhere: logs are not searched for it
  Message wrong;
  std::string wrong_text;  // as written
  std::string fix;
  std::string fix_key;  // set where one key mends it
  std::string fix_value;
  std::string source;  // file of the framework
  std::string base;    // which base job the examples change; empty: the first framework's
  Example breaks;
  Example holds;
  std::vector<std::string> keys;  // keys, variables and facts that the condition reads

  [[nodiscard]] bool applies_to(job::Framework framework) const;
};

class RuleSet {
 public:
  [[nodiscard]] const std::vector<Rule>& rules() const { return rules_; }
  [[nodiscard]] const Rule* find(std::string_view id) const;  // any case
  [[nodiscard]] const FactTable& facts() const { return facts_; }

 private:
  friend Result<RuleSet> read_rules(std::span<const std::string_view> texts);

  std::vector<Rule> rules_;
  FactTable facts_;
};

// Reads files of facts and rules, TOML. Errors name the rule, the key and the position in the expression.
[[nodiscard]] Result<RuleSet> read_rules(std::span<const std::string_view> texts);

// The rules that are compiled into the program.
[[nodiscard]] const RuleSet& catalogue();

class Checker {
 public:
  Checker(const RuleSet& rules, const job::Job& job);

  // Indexes into RuleSet::rules() of what the job violates.
  [[nodiscard]] std::vector<std::uint16_t> check(const job::Job& job) const;
  // Whether the framework would refuse the job; stops at the first violation.
  [[nodiscard]] bool violates_any_error(const job::Job& job) const;
  // The text with its holes filled.
  [[nodiscard]] std::string fill(const Message& message, const job::Job& job) const;

 private:
  // A condition with what is looked up once filled in, in one piece with the others.
  struct Placed {
    std::size_t begin = 0;  // in code_
    std::size_t size = 0;
    std::uint16_t rule = 0;
  };
  [[nodiscard]] Placed place(const Rule& rule, std::uint16_t index, const FactSource& facts);
  [[nodiscard]] bool is_violated(const Placed& placed, Machine& machine, const FactSource& facts) const;

  const RuleSet& rules_;
  Lookups lookups_;
  std::vector<Instruction> code_;
  std::vector<Value> constants_;
  std::vector<Placed> errors_;  // rules that can be violated by severity, in order
  std::vector<Placed> warnings_;
};

struct Violation {
  const Rule* rule = nullptr;
  std::string wrong;
  std::vector<std::string> prints;  // one of these; empty where the framework says nothing
};

// Errors first, each severity in the order of the catalogue.
[[nodiscard]] std::vector<Violation> check(const job::Job& job);
[[nodiscard]] std::vector<Violation> check(const RuleSet& rules, const job::Job& job);

[[nodiscard]] std::string_view name_of(Severity severity);

}  // namespace plimsoll::rules
