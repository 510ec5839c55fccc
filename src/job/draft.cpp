// SPDX-License-Identifier: Apache-2.0
#include "job/draft.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "job/keys.h"
#include "job/keys/table.h"
#include "job/unknown.h"
#include "job/value.h"
#include "model/catalog.h"

namespace plimsoll::job {

Draft::Draft() = default;
Draft::Draft(const Draft&) = default;
Draft::Draft(Draft&&) noexcept = default;
Draft& Draft::operator=(const Draft&) = default;
Draft& Draft::operator=(Draft&&) noexcept = default;
Draft::~Draft() = default;

using document::Node;

namespace {

constexpr std::size_t kMaxAssignments = 4000;

// Whether the file itself has this word, not only the reader that translated another one into it.
bool is_word_of_file(const Assignment& given) {
  const std::string where = replace(given.where, '-', '_');
  if (!where.ends_with(given.key)) return false;
  const std::size_t before = where.size() - given.key.size();
  return before == 0 || where[before - 1] == ' ' || where[before - 1] == '.' || where[before - 1] == '_';
}

// One assignment in canonical form; no key where it has nothing to say about memory.
Result<std::optional<Assignment>> resolve(const Draft& draft, const Assignment& given, Joined& joined,
                                          UnknownKeys& unknown, bool accepts_refused) {
  Assignment result = given;
  const Alias* alias = find_alias(draft.names, given.key);
  // A name that means nothing to the tool does not silence what the reader says under that name.
  if (alias != nullptr && alias->kind == AliasKind::kNoEffect && is_key(given.key) && !is_word_of_file(given))
    alias = nullptr;
  if (alias == nullptr && !is_key(given.key)) {
    alias = find_alias(draft.vocabulary, given.key);
    if (alias == nullptr) {
      unknown.add(draft, given);
      return std::optional<Assignment>{};
    }
  }
  if (alias != nullptr) {
    switch (alias->kind) {
      case AliasKind::kNoEffect:
        return std::optional<Assignment>{};
      case AliasKind::kNotModelled:
        if (!is_harmless(*alias, given.value))
          joined.warnings.push_back(fmt::format("{}: {}", given.key, alias->target));
        return std::optional<Assignment>{};
      case AliasKind::kRefused:
        if (accepts_refused || is_harmless(*alias, given.value)) return std::optional<Assignment>{};
        return tl::make_unexpected(Error{Code::kBadInput, std::string(alias->target), {given.where}, {}});
      case AliasKind::kKey:
        break;
      case AliasKind::kInverse: {
        if (given.value.is_null()) return std::optional<Assignment>{};
        auto flag = to_bool(given.value);
        if (!flag) return tl::make_unexpected(std::move(flag.error()).with_context(given.where));
        result.value = bool_node(!*flag);
        break;
      }
    }
    result.key = alias->target;
  }
  const FoundKey found = find_key(result.key);
  if (found.key == nullptr) return tl::make_unexpected(bad_target(given.key, result.key));
  if (result.value.is_null() && !takes_null<Job>(found.key->field)) return std::optional<Assignment>{};
  return std::optional<Assignment>(std::move(result));
}

// "auto" says nothing where another file says something; a default gives way to what is stated.
int strength(const Assignment& assignment) {
  if (assignment.value.is_string() && assignment.value.text == "auto") return 0;
  return assignment.weak ? 1 : 2;
}

Status add(Joined& joined, Assignment next, const ReadOptions& options) {
  for (Assignment& before : joined.assignments) {
    if (before.key != next.key) continue;
    if (same_value(before.value, next.value)) {
      before.weak = before.weak && next.weak;
      return {};
    }
    if (strength(before) != strength(next)) {
      if (strength(before) < strength(next)) before = std::move(next);
      return {};
    }
    if (decided_by_option(options, next.key)) return {};
    return bad_input(fmt::format("{} contradicts itself: {} is {}, {} is {}", next.key, before.where,
                                 shown(before.value), next.where, shown(next.value)),
                     fmt::format("give --{} to decide", replace(next.key, '_', '-')));
  }
  joined.assignments.push_back(std::move(next));
  return {};
}

// A DeepSpeed or FSDP file says more about the framework than the TrainingArguments beside it.
Status choose_framework(const std::vector<Draft>& drafts, Joined& joined) {
  const Draft* chosen = nullptr;
  for (const Draft& draft : drafts) {
    if (!draft.framework) continue;
    if (chosen == nullptr || *chosen->framework == *draft.framework) {
      if (chosen == nullptr || draft.framework_is_stated) chosen = &draft;
      continue;
    }
    const bool gives_way = facts_of(*chosen->framework).drives_others && !chosen->framework_is_stated;
    const bool adds_nothing = facts_of(*draft.framework).drives_others && !draft.framework_is_stated;
    if (gives_way) {
      chosen = &draft;
    } else if (!adds_nothing) {
      return bad_input(fmt::format("{} is for {}, {} is for {}: they cannot describe one job", chosen->path,
                                   name_of(*chosen->framework), draft.path, name_of(*draft.framework)),
                       "give --framework to decide");
    }
  }
  if (chosen != nullptr) joined.framework = chosen->framework;
  return {};
}

// Whether the keys alone say what the model is.
bool gives_shape(const Joined& joined) {
  return std::any_of(joined.assignments.begin(), joined.assignments.end(), [](const Assignment& assignment) {
    return assignment.key == "num_layers" || assignment.key == "hidden_size";
  });
}

bool is_unheard_of(const Draft& draft, const std::string& key) {
  return !is_key(key) && find_alias(draft.names, key) == nullptr && find_alias(draft.vocabulary, key) == nullptr;
}

// "${eval:...}", "${data.batch}": a reference that nothing here says.
bool is_filled_in_later(const Node& value) {
  return value.is_string() && value.text.starts_with("${") && value.text.ends_with('}');
}

// Files that name other files or hold their tables; a file includes at most a few.
void flatten(const Draft& draft, std::vector<Draft>& drafts) {
  drafts.push_back(draft);
  drafts.back().parts.clear();
  for (const Draft& part : draft.parts) flatten(part, drafts);
}

}  // namespace

void Draft::assign(std::string key, Node value, std::string_view written_as, bool weak) {
  if (has_too_many) return;
  Assignment next{std::move(key), std::move(value), {}, weak};
  const std::string_view written = written_as.empty() ? std::string_view(next.key) : written_as;
  const auto own = written_names.find(written);
  next.where = fmt::format("{}: {}", path, own == written_names.end() ? written : std::string_view(own->second));
  for (Assignment& before : assignments) {
    if (before.key != next.key) continue;
    before = std::move(next);
    return;
  }
  has_too_many = assignments.size() >= kMaxAssignments;
  if (!has_too_many) assignments.push_back(std::move(next));
}

bool decided_by_option(const ReadOptions& options, std::string_view key) {
  if (key == "gpu" && !options.gpu.empty()) return true;
  if (key == "gpus" && options.gpus) return true;
  for (const auto& override : options.overrides)
    if (canonical_name(override.first) == key) return true;
  return false;
}

Result<Joined> join_drafts(const std::vector<Draft>& given_drafts, const ReadOptions& options) {
  std::vector<Draft> drafts;
  for (const Draft& draft : given_drafts) flatten(draft, drafts);
  Joined joined;
  UnknownKeys unknown;
  const Draft* model_of = nullptr;
  const Draft* nameless = nullptr;
  for (const Draft& draft : drafts) {
    joined.kinds.push_back(draft.kind);
    joined.launch_is_whole = joined.launch_is_whole || draft.launch_is_whole;
    if (draft.has_too_many)
      return bad_input(fmt::format("{}: more than {} keys; this is not a configuration", draft.path, kMaxAssignments));
    for (const Assignment& given : draft.assignments) {
      if (!given.problem.empty()) {
        if (decided_by_option(options, canonical_name(given.key))) continue;
        if (is_unheard_of(draft, given.key) && subject_of(given.key).empty()) {
          unknown.add(draft, given);
          continue;
        }
        const bool needs_arguments = given.problem.find(" of the script") != std::string::npos;
        Error error{Code::kBadInput,
                    given.problem,
                    {given.where},
                    needs_arguments ? "give what the script is started with: --script-args \"A B ...\""
                                    : fmt::format("give --{} to decide", replace(given.key, '_', '-'))};
        if (options.problems == nullptr) return tl::make_unexpected(std::move(error));
        if (!given.problem_is_ours) options.problems->push_back({canonical_name(given.key), std::move(error)});
        continue;
      }
      if (!given.weak && !given.value.is_null()) joined.stated.emplace(given.key, document::to_text(given.value));
      auto resolved = resolve(draft, given, joined, unknown, options.problems != nullptr);
      if (!resolved) return tl::make_unexpected(std::move(resolved.error()));
      if (!*resolved) continue;
      const std::string key = (*resolved)->key;
      if (is_filled_in_later((*resolved)->value) && !given.weak && !draft.is_filled_in_by_others) {
        if (decided_by_option(options, key)) continue;
        Error error{Code::kBadInput,
                    fmt::format("its value {} is filled in where the job runs", shown((*resolved)->value)),
                    {given.where},
                    fmt::format("give --{} to decide", replace(key, '_', '-'))};
        if (options.problems == nullptr) return tl::make_unexpected(std::move(error));
        options.problems->push_back({key, std::move(error)});
        continue;
      }
      if (auto added = add(joined, **std::move(resolved), options); !added) {
        if (options.problems == nullptr) return tl::make_unexpected(std::move(added.error()));
        options.problems->push_back({key, std::move(added.error())});
      }
    }
    for (const auto& [name, value] : draft.environment) {
      const auto [at, is_new] = joined.environment.emplace(name, value);
      if (!is_new && at->second != value)
        return bad_input(
            fmt::format("environment variable {} is '{}' and '{}' in {}", name, at->second, value, draft.path));
    }
    joined.warnings.insert(joined.warnings.end(), draft.warnings.begin(), draft.warnings.end());
    if (!draft.read_as.empty()) joined.notes.push_back(fmt::format("{}: read as {}", draft.path, draft.read_as));
    joined.notes.insert(joined.notes.end(), draft.notes.begin(), draft.notes.end());
    if (!draft.unknown_model.empty() && nameless == nullptr) nameless = &draft;
    if (draft.model.layers.empty()) continue;
    if (model_of != nullptr && (draft.model_is_weak || model_of->model_is_weak)) {
      if (draft.model_is_weak) continue;
    } else if (model_of != nullptr) {
      return bad_input(fmt::format("{} and {} both give a model", model_of->path, draft.path),
                       "give --model to decide");
    }
    model_of = &draft;
    joined.model = draft.model;
  }
  PLIMSOLL_TRY_STATUS(unknown.finish(options.strict, joined.notes));
  if (nameless != nullptr && joined.model.layers.empty() && !gives_shape(joined)) {
    Error error = model::find_model(nameless->unknown_model).error();
    error.context.push_back(nameless->path);
    const std::string near = error.hint.find("did you mean") == 0 ? error.hint + " Else " : "";
    error.hint = fmt::format("{}give its config.json: --model path/of/config.json", near);
    if (options.problems == nullptr) return tl::make_unexpected(std::move(error));
    options.problems->push_back({"model", std::move(error)});
  }
  if (options.framework) {
    joined.framework = options.framework;
  } else {
    PLIMSOLL_TRY_STATUS(choose_framework(drafts, joined));
  }
  return joined;
}

}  // namespace plimsoll::job
