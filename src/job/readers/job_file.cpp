// SPDX-License-Identifier: Apache-2.0
// The job file of this project, TOML or JSON (design.md): framework, model, and canonical keys in their
// sections. A key may stand in any section or at the top, since its name alone says what it is.
#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/suggest.h"
#include "base/text.h"
#include "job/draft.h"
#include "job/keys.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/value.h"
#include "model/hf_config.h"

namespace plimsoll::job {

using document::Node;

namespace {

constexpr std::string_view kSections[] = {"cluster",  "parallel", "batch", "precision", "recompute", "optimizer",
                                          "sharding", "offload",  "moe",   "adapter",   "kernels"};

bool is_section(std::string_view name) {
  return std::find(std::begin(kSections), std::end(kSections), name) != std::end(kSections);
}

Status read_environment(const Node& table, Draft& draft) {
  if (!table.is_object()) return bad_input("environment: wanted a table of names and values");
  for (const auto& [name, value] : table.members) {
    PLIMSOLL_TRY(text, to_word(value));
    draft.environment[name] = std::move(text);
  }
  return {};
}

// One key twice in a file would leave it open which one counts.
Status assign_once(Draft& draft, const std::string& key, const Node& value, const std::string& written_as) {
  if (draft.has_too_many) return {};
  for (const Assignment& before : draft.assignments)
    if (before.key == key && !before.weak)
      return bad_input(fmt::format("{} is given twice: {} and {}", key, before.where, written_as));
  draft.assign(key, value, written_as);
  return {};
}

void include_model(Draft& draft, Draft model) {
  model.path = draft.path;
  draft.model = std::move(model.model);
  for (Assignment& assignment : model.assignments)
    draft.assign(assignment.key, assignment.value, "model", assignment.weak);
  draft.warnings.insert(draft.warnings.end(), model.warnings.begin(), model.warnings.end());
}

// A name, a path, a table in config.json's spelling, or a table of canonical keys over an optional name.
Status read_model(const Node& value, Draft& draft) {
  const std::string folder = parent_folder(draft.path);
  if (value.is_string()) {
    PLIMSOLL_TRY(model, find_model_or_file(value.text, folder));
    include_model(draft, std::move(model));
    return {};
  }
  if (!value.is_object())
    return bad_input(fmt::format("model: found {}, wanted a name, a path or a table", shown(value)));
  if (model::looks_like_hf_config(value)) {
    PLIMSOLL_TRY(model, model::read_hf_config(value));
    draft.model = std::move(model);
    if (draft.model.name.empty()) draft.model.name = "the [model] table";
    return {};
  }
  for (const auto& [key, item] : value.members) {
    if (key == "name" || key == "path") {
      PLIMSOLL_TRY(name, to_word(item));
      PLIMSOLL_TRY(model, find_model_or_file(name, folder));
      include_model(draft, std::move(model));
    } else if (key == "num_hidden_layers" || key == "n_layer" || key == "intermediate_size") {
      return bad_input(fmt::format("model.{}: a table in config.json's spelling needs model_type, too", key));
    } else {
      PLIMSOLL_TRY_STATUS(assign_once(draft, key, item, "model." + key));
    }
  }
  return {};
}

}  // namespace

Result<Draft> read_job_file(const InputFile& file) {
  Draft draft;
  draft.path = file.path;
  draft.kind = FileKind::kJob;
  PLIMSOLL_TRY(root, parse_document(file.text));
  if (!root.is_object()) return bad_input("wanted a table of keys");
  if (const Node* framework = root.find("framework"); framework != nullptr) {
    PLIMSOLL_TRY(name, to_word(*framework));
    draft.framework = from_name<Framework>(name);
    if (!draft.framework)
      return bad_input(fmt::format("framework: found '{}', wanted {}", name, choices<Framework>()),
                       did_you_mean(name, choices<Framework>()));
    draft.framework_is_stated = true;
    draft.vocabulary = *draft.framework;
  }
  for (const auto& [key, value] : root.members) {
    if (key == "framework" || key == "name" || key == "description") continue;
    if (key == "model") {
      PLIMSOLL_TRY_STATUS(read_model(value, draft));
    } else if (key == "environment") {
      PLIMSOLL_TRY_STATUS(read_environment(value, draft));
    } else if (value.is_object() && is_section(key)) {
      for (const auto& [inner, item] : value.members)
        PLIMSOLL_TRY_STATUS(assign_once(draft, inner, item, key + "." + inner));
    } else if (value.is_object()) {
      std::vector<std::string> names(std::begin(kSections), std::end(kSections));
      names.insert(names.end(), {"model", "environment"});
      const std::string near = nearest(key, names);
      return bad_input(fmt::format("unknown section [{}]", key),
                       near.empty() ? "sections are " + join(names, ", ") : fmt::format("did you mean [{}]?", near));
    } else {
      PLIMSOLL_TRY_STATUS(assign_once(draft, key, value, key));
    }
  }
  return draft;
}

}  // namespace plimsoll::job
