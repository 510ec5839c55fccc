// SPDX-License-Identifier: Apache-2.0
#include "answer/lint.h"

#include <algorithm>

#include <fmt/format.h>

#include "answer/describe.h"
#include "answer/listing.h"

namespace plimsoll::answer {

namespace {

// A violated rule explains a problem with a key that it reads, and an error explains why the job as a whole
// does not hold together.
bool is_explained(const job::Problem& problem, const std::vector<rules::Violation>& violations) {
  if (problem.key.empty()) return has_error(violations);
  return std::any_of(violations.begin(), violations.end(), [&problem](const rules::Violation& violation) {
    const std::vector<std::string>& keys = violation.rule->keys;
    return std::find(keys.begin(), keys.end(), problem.key) != keys.end();
  });
}

void write_example(JsonWriter& json, std::string_view name, const rules::Example& example) {
  json.key(name).begin_object(Layout::kInline);
  for (const auto& [key, value] : example) json.member(key, document::to_text(value));
  json.end_object();
}

}  // namespace

bool has_error(const std::vector<rules::Violation>& violations) {
  return std::any_of(violations.begin(), violations.end(), [](const rules::Violation& violation) {
    return violation.rule->severity == rules::Severity::kError;
  });
}

Result<Lint> lint(const job::Request& request) {
  std::vector<job::Problem> problems;
  PLIMSOLL_TRY(job, job::resolve(request, problems));
  Lint answer{std::move(job), {}, 0, {}};
  answer.violations = rules::check(answer.job);
  for (const rules::Rule& rule : rules::catalogue().rules())
    if (rule.checked_by == rules::CheckedBy::kJob && rule.applies_to(answer.job.framework)) ++answer.checked;
  if (!answer.job.has("gpus")) answer.not_checked.emplace_back("rules about the number of GPUs: it is not known");
  if (!answer.job.has("gpu") && !answer.job.stated.contains("compute_capability"))
    answer.not_checked.emplace_back("rules about the GPU: it is not known");

  const auto unexplained = std::find_if(problems.begin(), problems.end(), [&answer](const job::Problem& problem) {
    return !is_explained(problem, answer.violations);
  });
  // Nothing to report but a job that cannot be read.
  if (unexplained != problems.end() && !has_error(answer.violations)) return tl::make_unexpected(unexplained->error);
  for (auto problem = unexplained; problem != problems.end(); ++problem)
    if (!is_explained(*problem, answer.violations)) answer.not_checked.push_back(to_string(problem->error));
  return answer;
}

std::string to_json(const Lint& lint) {
  JsonWriter json;
  json.begin_object()
      .member("schema", kSchema)
      .member("job", lint.job.name)
      .member("framework", job::name_of(lint.job.framework))
      .member("rules_checked", lint.checked);
  describe(json, lint.violations);
  write_texts(json, "not_checked", lint.not_checked, Layout::kInline);
  return json.end_object().take();
}

Result<Rules> find_rules(const std::string& text, std::optional<job::Framework> framework) {
  Rules rules;
  std::vector<std::string> ids;
  for (const rules::Rule& rule : rules::catalogue().rules()) {
    ids.push_back(rule.id);
    if (framework && !rule.applies_to(*framework)) continue;
    if (is_asked_for(text, {rule.id, rule.when, rule.wrong_text, std::string(rules::name_of(rule.severity))}))
      rules.push_back(&rule);
  }
  if (rules.empty()) return nothing_matches(text, "rule", ids);
  return rules;
}

std::string to_json(const Rules& rules) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).key("rules").begin_array();
  for (const rules::Rule* rule : rules) {
    json.begin_object()
        .member("id", rule->id)
        .member("severity", rules::name_of(rule->severity))
        .member("seen_in", rule->checked_by == rules::CheckedBy::kJob ? "job" : "logs");
    json.key("frameworks").begin_array(Layout::kInline);
    for (const job::Framework framework : rule->frameworks) json.value(job::name_of(framework));
    json.end_array();
    if (!rule->when.empty()) json.member("when", rule->when);
    write_texts(json, "prints", rule->prints, Layout::kInline);
    json.member("wrong", rule->wrong_text);
    describe_fix(json, *rule);
    if (!rule->versions.empty()) json.member("versions", rule->versions);
    if (!rule->source.empty()) json.member("source", rule->source);
    if (rule->checked_by == rules::CheckedBy::kJob) {
      write_example(json, "breaks", rule->breaks);
      write_example(json, "holds", rule->holds);
    }
    json.end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::answer
