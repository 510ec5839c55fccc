// SPDX-License-Identifier: Apache-2.0
#include "cli/lint_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/table.h"

namespace plimsoll::cli {

using rules::CheckedBy;
using rules::Rule;
using rules::Severity;
using rules::Violation;

namespace {

constexpr std::size_t kIndent = 2;
constexpr int kDefaultWidth = 100;

std::string frameworks_of(const Rule& rule) {
  std::vector<std::string> names;
  for (const job::Framework framework : rule.frameworks) names.emplace_back(job::name_of(framework));
  constexpr std::size_t kAll = 6;
  return names.size() == kAll ? "all" : join(names, ", ");
}

// How to apply a fix that is one key.
std::string as_setting(const Rule& rule) {
  constexpr std::string_view kEnvironment = "environment.";
  if (rule.fix_key.empty()) return {};
  if (rule.fix_key.starts_with(kEnvironment))
    return fmt::format("export {}={}", rule.fix_key.substr(kEnvironment.size()), rule.fix_value);
  return fmt::format("{} = {}", rule.fix_key, rule.fix_value);
}

std::string fix_of(const Rule& rule) {
  const std::string setting = as_setting(rule);
  return setting.empty() || rule.fix == setting ? rule.fix : fmt::format("{} [{}]", rule.fix, setting);
}

// "  label: words words" with the following lines under the words.
std::string paragraph(std::string_view label, std::string_view words, const Console& console) {
  const std::string head = fmt::format("{:{}}{:<8}", "", kIndent, label);
  const auto width = static_cast<std::size_t>(console.width > 0 ? console.width : kDefaultWidth);
  constexpr std::size_t kNarrowest = 20;
  std::string text;
  for (const std::string& line : wrap(words, std::max(kNarrowest, width - std::min(width, head.size()))))
    text += (text.empty() ? head : std::string(head.size(), ' ')) + line + '\n';
  return text;
}

std::string example_of(const rules::Example& example) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : example) parts.push_back(fmt::format("{} = {}", key, document::to_text(value)));
  return parts.empty() ? "a job without any of it" : join(parts, ", ");
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

std::string violation_lines(const Violation& violation, job::Framework framework, const Console& console) {
  const Rule& rule = *violation.rule;
  const bool is_error = rule.severity == Severity::kError;
  std::string text =
      fmt::format("{} {}\n", paint(rule.id, Style::kBold, console.colour_out),
                  paint(rules::name_of(rule.severity), is_error ? Style::kBad : Style::kWarning, console.colour_out));
  text += paragraph("wrong", violation.wrong, console);
  if (!violation.prints.empty())
    text += paragraph("prints", fmt::format("{}: \"{}\"", job::name_of(framework), join(violation.prints, "\" or \"")),
                      console);
  text += paragraph("fix", fix_of(rule), console);
  if (!rule.versions.empty()) text += paragraph("version", rule.versions, console);
  return text;
}

std::string lint_report(const answer::Lint& answer, const Console& console) {
  std::string text;
  std::size_t errors = 0;
  for (const Violation& violation : answer.violations) {
    text += violation_lines(violation, answer.job.framework, console) + '\n';
    if (violation.rule->severity == Severity::kError) ++errors;
  }
  const std::string_view framework = job::name_of(answer.job.framework);
  if (answer.violations.empty())
    return fmt::format("{}: none of the {} rules of {} is violated\n", answer.job.name, answer.checked, framework);
  return text + fmt::format("{}: {} and {}; {} rules of {} were checked\n", answer.job.name, counted(errors, "error"),
                            counted(answer.violations.size() - errors, "warning"), answer.checked, framework);
}

std::string rules_table(const answer::Rules& rules, const Console& console) {
  Table table(
      {{"rule"}, {"severity"}, {"seen in"}, {"frameworks", Align::kLeft, true}, {"what is wrong", Align::kLeft, true}});
  for (const Rule* rule : rules)
    table.add_row({rule->id, std::string(rules::name_of(rule->severity)),
                   rule->checked_by == CheckedBy::kJob ? "job" : "logs", frameworks_of(*rule), rule->wrong_text});
  return table.to_text(console.width, console.colour_out);
}

std::string rule_report(const Rule& rule, const Console& console) {
  std::string text = fmt::format("{} {}, {}\n", rule.id, rules::name_of(rule.severity), frameworks_of(rule));
  text += paragraph("wrong", rule.wrong_text, console);
  text += paragraph(
      "when", rule.when.empty() ? "only a run shows it; plimsoll why looks for what is printed" : rule.when, console);
  for (const std::string& print : rule.prints) text += paragraph("prints", fmt::format("\"{}\"", print), console);
  if (rule.prints.empty()) text += paragraph("prints", "nothing", console);
  text += paragraph("fix", fix_of(rule), console);
  if (!rule.versions.empty()) text += paragraph("version", rule.versions, console);
  if (!rule.source.empty()) text += paragraph("source", rule.source, console);
  if (rule.checked_by == CheckedBy::kLog) return text;
  text += paragraph("breaks", example_of(rule.breaks), console);
  return text + paragraph("holds", example_of(rule.holds), console);
}

}  // namespace plimsoll::cli
