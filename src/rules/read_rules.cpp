// SPDX-License-Identifier: Apache-2.0
// The reader of rule files. [facts] declares what no field of a job holds: name = "type", or
// name = {type = "text", default = "torch", megatron-bridge = "torch_dist"}. [[rule]] is one rule; see Rule
// for its keys. Unknown keys, ids given twice and conditions that do not compile are errors.
#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "base/text.h"
#include "document/plain_toml.h"
#include "job/knobs.h"
#include "rules/rules.h"

namespace plimsoll::rules {

using document::Node;

namespace {

constexpr std::size_t kMaxRules = 4096;
constexpr std::size_t kMaxInstructions = 60'000;  // a Checker numbers constants of all conditions in 16 bits
constexpr std::string_view kKeys[] = {"id",     "severity", "frameworks", "versions",   "when",
                                      "prints", "wrong",    "fix",        "set",        "source",
                                      "base",   "breaks",   "holds",      "checked_by", "vague"};

// Every table is read once: its texts and values are taken out of it.
Node* find(Node& table, std::string_view key) {
  for (auto& [name, value] : table.members)
    if (name == key) return &value;
  return nullptr;
}

Result<std::string> text_at(Node& table, std::string_view key, bool required) {
  Node* value = find(table, key);
  if (value == nullptr && !required) return std::string{};
  if (value == nullptr) return bad_input(fmt::format("{} is missing", key));
  if (!value->is_string()) return bad_input(fmt::format("{}: wanted a text", key));
  if (required && value->text.empty()) return bad_input(fmt::format("{} is empty", key));
  return std::move(value->text);
}

// One text or a list of them.
Result<std::vector<std::string>> texts_at(Node& table, std::string_view key) {
  std::vector<std::string> texts;
  Node* value = find(table, key);
  if (value == nullptr) return texts;
  if (value->is_string()) {
    texts.push_back(std::move(value->text));
    return texts;
  }
  if (!value->is_array()) return bad_input(fmt::format("{}: wanted a text or a list of texts", key));
  for (Node& item : value->items) {
    if (!item.is_string()) return bad_input(fmt::format("{}: wanted a list of texts", key));
    texts.push_back(std::move(item.text));
  }
  return texts;
}

Result<Type> type_of(const std::string& name) {
  constexpr Type kTypes[] = {Type::kBoolean, Type::kNumber, Type::kText, Type::kList, Type::kVersion};
  for (const Type type : kTypes)
    if (name == name_of(type)) return type;
  return bad_input(fmt::format("found '{}', wanted boolean, number, text, list or version", name));
}

Result<Declaration> read_declaration(Node& value) {
  Declaration declaration;
  if (value.is_string()) {
    PLIMSOLL_TRY(type, type_of(value.text));
    declaration.type = type;
    if (type == Type::kList)
      for (Node& otherwise : declaration.defaults) otherwise.kind = Node::Kind::kArray;
    if (type == Type::kBoolean)
      for (Node& otherwise : declaration.defaults) otherwise.kind = Node::Kind::kBool;
    return declaration;
  }
  if (!value.is_object()) return bad_input("wanted a type, or a table with type and default");
  PLIMSOLL_TRY(name, text_at(value, "type", true));
  PLIMSOLL_TRY(type, type_of(name));
  declaration.type = type;
  if (const Node* otherwise = value.find("default"); otherwise != nullptr) declaration.defaults.fill(*otherwise);
  for (const auto& [key, item] : value.members) {
    if (key == "type" || key == "default") continue;
    const auto framework = job::from_name<job::Framework>(key);
    if (!framework) return bad_input(fmt::format("unknown key '{}', wanted type, default or a framework", key));
    declaration.defaults[static_cast<std::size_t>(*framework)] = item;
  }
  return declaration;
}

// {tp} and {2 * cp} are holes; {{ and }} are braces.
Result<Message> read_message(std::string_view text, const Resolver& resolve) {
  Message message;
  message.literals.emplace_back();
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool doubled = at + 1 < text.size() && text[at + 1] == c;
    if ((c == '{' || c == '}') && doubled) {
      message.literals.back() += c;
      ++at;
    } else if (c == '{') {
      const std::size_t end = text.find('}', at);
      if (end == std::string_view::npos) return bad_input(fmt::format("at {}: '{{' without '}}'", at + 1));
      auto hole = compile(text.substr(at + 1, end - at - 1), resolve);
      if (!hole) return tl::make_unexpected(std::move(hole.error()).with_context(fmt::format("{{}} at {}", at + 1)));
      message.holes.push_back(*std::move(hole));
      message.literals.emplace_back();
      at = end;
    } else if (c == '}') {
      return bad_input(fmt::format("at {}: '}}' without '{{'", at + 1));
    } else {
      message.literals.back() += c;
    }
  }
  return message;
}

Result<Example> read_example(Node& table, std::string_view key) {
  Node* value = find(table, key);
  if (value == nullptr) return Example{};
  if (!value->is_object()) return bad_input(fmt::format("{}: wanted a table of keys", key));
  return std::move(value->members);
}

Status read_frameworks(Node& table, Rule& rule) {
  PLIMSOLL_TRY(names, texts_at(table, "frameworks"));
  for (const std::string& name : names) {
    const auto framework = job::from_name<job::Framework>(name);
    if (name != "all" && !framework)
      return bad_input(fmt::format("frameworks: found '{}', wanted all, {}", name, job::choices<job::Framework>()));
    for (const job::Framework each : job::all_frameworks())
      if ((name == "all" || each == *framework) && !rule.applies_to(each)) rule.frameworks.push_back(each);
  }
  if (rule.frameworks.empty()) return bad_input("frameworks is missing");
  return {};
}

Status read_fix(Node& table, Rule& rule) {
  PLIMSOLL_TRY(fix, text_at(table, "fix", true));
  rule.fix = std::move(fix);
  const Node* set = table.find("set");
  if (set == nullptr) return {};
  if (!set->is_object() || set->members.size() != 1) return bad_input("set: wanted one key and its value");
  rule.fix_key = set->members.front().first;
  rule.fix_value = document::to_text(set->members.front().second);
  return {};
}

Status read_condition(Node& table, FactTable& facts, const Resolver& resolve, Rule& rule) {
  PLIMSOLL_TRY(by, text_at(table, "checked_by", false));
  if (!by.empty() && by != "why" && by != "job")
    return bad_input(fmt::format("checked_by: found '{}', wanted why", by));
  rule.checked_by = by == "why" ? CheckedBy::kLog : CheckedBy::kJob;
  PLIMSOLL_TRY(when, text_at(table, "when", rule.checked_by == CheckedBy::kJob));
  rule.when = std::move(when);
  if (rule.when.empty()) return {};
  if (rule.checked_by == CheckedBy::kLog) return bad_input("when: a rule that only logs show has no condition");
  auto program = compile(rule.when, resolve);
  if (!program) return tl::make_unexpected(std::move(program.error()).with_context("when"));
  if (program->type() != Type::kBoolean && program->type() != Type::kAny)
    return bad_input(fmt::format("when: wanted a boolean, found a {}", name_of(program->type())));
  for (const Instruction& instruction : program->code())
    if (instruction.op == Op::kFact) {
      const std::string& key = facts.facts()[instruction.argument].key;
      if (std::find(rule.keys.begin(), rule.keys.end(), key) == rule.keys.end()) rule.keys.push_back(key);
    }
  rule.condition = *std::move(program);
  return {};
}

Status read_rule(Node& table, FactTable& facts, Rule& rule) {
  const Resolver resolve = [&facts](std::string_view name) { return facts.resolve(name); };
  for (const auto& member : table.members)
    if (std::find(std::begin(kKeys), std::end(kKeys), member.first) == std::end(kKeys))
      return bad_input(fmt::format("unknown key '{}'", member.first));
  PLIMSOLL_TRY(severity, text_at(table, "severity", false));
  if (!severity.empty() && severity != "error" && severity != "warning")
    return bad_input(fmt::format("severity: found '{}', wanted error or warning", severity));
  rule.severity = severity == "warning" ? Severity::kWarning : Severity::kError;
  PLIMSOLL_TRY_STATUS(read_frameworks(table, rule));
  PLIMSOLL_TRY_STATUS(read_condition(table, facts, resolve, rule));
  PLIMSOLL_TRY_STATUS(read_fix(table, rule));
  PLIMSOLL_TRY(prints, texts_at(table, "prints"));
  for (const std::string& text : prints) {
    auto message = read_message(text, resolve);
    if (!message) return tl::make_unexpected(std::move(message.error()).with_context("prints"));
    rule.printed.push_back(*std::move(message));
  }
  rule.prints = std::move(prints);
  if (const Node* vague = table.find("vague")) {
    if (vague->kind != Node::Kind::kBool) return bad_input("vague: wanted true or false");
    rule.vague = vague->boolean;
  }
  PLIMSOLL_TRY(wrong, text_at(table, "wrong", true));
  auto message = read_message(wrong, resolve);
  if (!message) return tl::make_unexpected(std::move(message.error()).with_context("wrong"));
  rule.wrong = *std::move(message);
  rule.wrong_text = std::move(wrong);
  PLIMSOLL_TRY(versions, text_at(table, "versions", false));
  rule.versions = std::move(versions);
  PLIMSOLL_TRY(source, text_at(table, "source", false));
  rule.source = std::move(source);
  PLIMSOLL_TRY(base, text_at(table, "base", false));
  rule.base = std::move(base);
  PLIMSOLL_TRY(breaks, read_example(table, "breaks"));
  rule.breaks = std::move(breaks);
  PLIMSOLL_TRY(holds, read_example(table, "holds"));
  rule.holds = std::move(holds);
  return {};
}

}  // namespace

Result<RuleSet> read_rules(std::span<const std::string_view> texts) {
  RuleSet set;
  std::vector<Node> roots;
  for (const std::string_view text : texts) {
    if (auto plain = document::parse_plain_toml(text)) {
      roots.push_back(*std::move(plain));
      continue;
    }
    PLIMSOLL_TRY(root, document::parse_toml(text));
    roots.push_back(std::move(root));
  }
  // Facts first, whichever file declares them.
  for (Node& root : roots)
    for (auto& [section, table] : root.members) {
      if (section == "rule") continue;
      if (section != "facts" || !table.is_object())
        return bad_input(fmt::format("unknown key '{}', wanted [facts] or [[rule]]", section));
      for (auto& [name, value] : table.members) {
        auto declaration = read_declaration(value);
        if (!declaration)
          return tl::make_unexpected(std::move(declaration.error()).with_context(fmt::format("facts.{}", name)));
        PLIMSOLL_TRY_STATUS(set.facts_.declare(name, *std::move(declaration)));
      }
    }
  std::unordered_set<std::string> known;  // ids, in small letters
  std::size_t size = 0;                   // of all conditions
  for (Node& root : roots) {
    Node* rules = find(root, "rule");
    if (rules == nullptr) continue;
    if (!rules->is_array()) return bad_input("rule: wanted [[rule]] tables");
    for (Node& table : rules->items) {
      if (!table.is_object()) return bad_input("rule: wanted [[rule]] tables");
      if (set.rules_.size() >= kMaxRules) return bad_input(fmt::format("more than {} rules", kMaxRules));
      PLIMSOLL_TRY(id, text_at(table, "id", true));
      if (!known.insert(lower(id)).second) return bad_input(fmt::format("the rule {} is given twice", id));
      Rule rule;
      rule.id = id;
      if (auto read = read_rule(table, set.facts_, rule); !read)
        return tl::make_unexpected(std::move(read.error()).with_context(id));
      size += rule.condition.code().size();
      if (size > kMaxInstructions) return bad_input("the conditions of all rules together are too long");
      set.rules_.push_back(std::move(rule));
    }
  }
  return set;
}

}  // namespace plimsoll::rules
