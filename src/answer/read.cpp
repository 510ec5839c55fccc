// SPDX-License-Identifier: Apache-2.0
#include "answer/read.h"

#include <fmt/format.h>

#include "answer/describe.h"
#include "answer/json.h"

namespace plimsoll::answer {

namespace {

std::vector<job::KeyOrigin> given_keys(const std::vector<job::KeyOrigin>& all, bool with_defaults) {
  std::vector<job::KeyOrigin> keys;
  for (const job::KeyOrigin& key : all) {
    const bool is_given = key.origin.kind == job::OriginKind::kFile || key.origin.kind == job::OriginKind::kSetting;
    if (is_given || (with_defaults && !key.value.empty())) keys.push_back(key);
  }
  return keys;
}

std::string with_hint(const Error& error) {
  return to_string(error) + (error.hint.empty() ? "" : fmt::format(" ({})", error.hint));
}

}  // namespace

std::string source_of(const job::KeyOrigin& key) {
  switch (key.origin.kind) {
    case job::OriginKind::kFile:
    case job::OriginKind::kSetting:
      return key.origin.where;
    case job::OriginKind::kDerived:
      return fmt::format("derived as {} does", key.origin.where);
    case job::OriginKind::kDefault:
      return fmt::format("default of {}", key.origin.where);
  }
  return {};
}

Result<Understood> understand(const job::Request& request, Defaults defaults) {
  std::vector<job::Problem> problems;
  PLIMSOLL_TRY(job, job::resolve(request, problems));
  PLIMSOLL_TRY(all, job::origins(request, job));
  Understood answer{std::move(job), given_keys(all, defaults == Defaults::kShown), {}};
  for (const job::Problem& problem : problems) answer.missing.push_back(with_hint(problem.error));
  if (!answer.missing.empty()) return answer;
  if (const auto whole = job::resolve(request)) {
    answer.violations = rules::check(*whole);
  } else {
    answer.missing.push_back(with_hint(whole.error()));
  }
  return answer;
}

std::string to_json(const Understood& answer) {
  JsonWriter json;
  json.begin_object()
      .member("schema", kSchema)
      .member("framework", std::string{job::name_of(answer.job.framework)})
      .member("model", answer.job.model.name)
      .member("complete", answer.missing.empty());
  json.key("keys").begin_array();
  for (const job::KeyOrigin& key : answer.keys)
    json.begin_object(Layout::kInline)
        .member("key", key.key)
        .member("value", key.value)
        .member("from", source_of(key))
        .end_object();
  json.end_array();
  write_texts(json, "notes", answer.job.notes);
  write_texts(json, "warnings", answer.job.warnings);
  write_texts(json, "missing", answer.missing);
  describe(json, answer.violations);
  return json.end_object().take();
}

}  // namespace plimsoll::answer
