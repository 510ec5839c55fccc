// SPDX-License-Identifier: Apache-2.0
// Who gave a key its value: a setting, a file, the framework's rule, or its default.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/text.h"
#include "job/draft.h"
#include "job/keys.h"
#include "job/request.h"

namespace plimsoll::job {

namespace {

std::string flag_of(std::string_view key) {
  return key.find('.') == std::string_view::npos ? "--" + replace(key, '_', '-') : "--" + std::string(key);
}

// Canonical key -> the flag or setting that gives it.
std::map<std::string, std::string, std::less<>> settings_of(const ReadOptions& options) {
  std::map<std::string, std::string, std::less<>> all;
  if (!options.gpu.empty()) all["gpu"] = "--gpu";
  if (options.gpus) all["gpus"] = "--gpus";
  for (const auto& [key, value] : options.overrides) all[canonical_name(key)] = flag_of(key);
  return all;
}

// Plain values as text; lists and layouts, which no plain field holds, as they were written.
std::string value_text(const Job& job, const std::string& key) {
  if (const auto value = value_of(job, key)) return document::to_text(*value);
  const auto stated = job.stated.find(key);
  return stated == job.stated.end() ? std::string{} : stated->second;
}

}  // namespace

Result<std::vector<KeyOrigin>> origins(const Request& request, const Job& job) {
  ReadOptions options = request.options();
  std::vector<Problem> ignored;
  options.problems = &ignored;  // the job resolves: whatever a setting decides is no problem
  PLIMSOLL_TRY(joined, join_drafts(request.drafts(), options));
  std::map<std::string, std::string, std::less<>> files;
  for (const Assignment& assignment : joined.assignments)
    if (!assignment.weak && !assignment.value.is_null()) files.emplace(assignment.key, assignment.where);
  const auto settings = settings_of(options);
  const Job defaults = defaults_for(job.framework);
  std::vector<KeyOrigin> all;
  for (const std::string& key : key_names()) {
    const std::string value = value_text(job, key);
    if (const auto setting = settings.find(key); setting != settings.end())
      all.push_back({key, value, {OriginKind::kSetting, setting->second}});
    else if (const auto file = files.find(key); file != files.end())
      all.push_back({key, value, {OriginKind::kFile, file->second}});
    else if (value != value_text(defaults, key))
      all.push_back({key, value, {OriginKind::kDerived, std::string(name_of(job.framework))}});
    else
      all.push_back({key, value, {OriginKind::kDefault, std::string(name_of(job.framework))}});
  }
  return all;
}

}  // namespace plimsoll::job
