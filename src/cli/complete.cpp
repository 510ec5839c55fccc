// SPDX-License-Identifier: Apache-2.0
#include "cli/complete.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "answer/lint.h"
#include "answer/listing.h"
#include "answer/plan.h"
#include "answer/rl.h"
#include "answer/score.h"
#include "base/suggest.h"
#include "base/text.h"
#include "cli/job_keys.h"

namespace plimsoll::cli {

namespace {

std::vector<Completion> choices(std::string_view list) {
  std::vector<Completion> all;
  for (std::string& value : listed_values(list)) all.push_back({std::move(value), {}});
  return all;
}

std::vector<Completion> model_names() {
  std::vector<Completion> names;
  const auto models = answer::find_models("");
  if (!models) return names;
  for (const answer::ListedModel& model : *models)
    names.push_back(
        {model.entry->name, fmt::format("{} layers, width {}", model.architecture.depth(), model.architecture.hidden)});
  return names;
}

std::vector<Completion> gpu_names() {
  std::vector<Completion> names;
  const auto gpus = answer::find_gpus("");
  if (!gpus) return names;
  for (const cluster::Gpu* gpu : *gpus) names.push_back({gpu->id, gpu->name});
  return names;
}

std::vector<Completion> rule_names() {
  std::vector<Completion> names;
  if (const auto rules = answer::find_rules("", std::nullopt))
    for (const rules::Rule* rule : *rules) names.push_back({rule->id, rule->wrong_text});
  return names;
}

// Settings of the allocator, to be followed by a value.
std::vector<Completion> setting_names() {
  std::vector<Completion> names;
  if (const auto settings = answer::find_allocator_settings(""))
    for (const allocator::Setting* setting : *settings)
      names.push_back({std::string(setting->name) + ":", std::string(setting->doc)});
  return names;
}

bool wants_file(std::string_view argument) {
  return argument.starts_with("FILE") || argument == "JOB" || argument == "DIR" || argument == "FOLDER";
}

// What a flag of the table may be given.
Completions values_of(const Flag& flag) {
  if (flag.name == "gpu") return {gpu_names(), false};
  if (flag.name == "model") return {model_names(), true};
  if (flag.name == "framework") return {choices(job::choices<job::Framework>()), false};
  if (!flag.choices.empty()) return {choices(flag.choices), false};
  if (flag.name == "set" || flag.name == "allocator") return {setting_names(), false};
  if (flag.name == "quantity") return {choices(join(answer::quantities(), ", ")), false};
  if (flag.name == "explain" && flag.argument == "ID") return {rule_names(), false};
  if (flag.name == "max") return {choices("seq_length, micro_batch_size"), false};
  if (flag.name == "emit") {
    std::vector<Completion> targets;
    for (const std::string& target : emit::target_names()) targets.push_back({target, {}});
    return {std::move(targets), false};
  }
  if (flag.name == "keep" || flag.name == "fix" || flag.name == "sweep") {
    std::vector<Completion> keys;
    for (const job::KeyInfo& key : job::key_table())
      keys.push_back({flag.name == "keep" ? key.name : key.name + "=", key.doc});
    return {std::move(keys), false};
  }
  return {{}, wants_file(flag.argument)};
}

const job::KeyInfo* key_of_flag(std::string_view name) {
  const std::string key = answer::full_key_name(replace(name, '-', '_'));
  for (const job::KeyInfo& info : job::key_table())
    if (info.name == key) return &info;
  return nullptr;
}

// What follows `--name`, where that wants a value.
std::optional<Completions> values_after(const Verb& verb, std::string_view word) {
  if (!word.starts_with("--")) return std::nullopt;
  const std::string_view name = word.substr(2);
  const std::vector<Flag> flags = all_flags(verb);
  const auto flag = std::find_if(flags.begin(), flags.end(), [name](const Flag& one) { return one.name == name; });
  if (flag != flags.end()) return flag->argument.empty() ? std::nullopt : std::optional(values_of(*flag));
  if (!verb.takes_keys) return std::nullopt;
  if (const rl::Key* own = verb.keys == nullptr ? nullptr : rl::find_key(name); own != nullptr) {
    const std::string type = rl::type_name(*own);
    return type == "boolean" ? std::nullopt : std::optional(Completions{choices(type), type == "text"});
  }
  const job::KeyInfo* key = key_of_flag(name);
  if (key == nullptr || key->type.starts_with("boolean")) return std::nullopt;
  return Completions{choices(key->type), key->type == "text"};
}

Completions flags_of(const Verb& verb) {
  Completions all;
  for (const Flag& flag : all_flags(verb))
    all.words.push_back({fmt::format("--{}", flag.name), std::string(flag.help)});
  if (!verb.takes_keys) return all;
  if (verb.keys != nullptr)
    for (const rl::Key& key : rl::key_table())
      all.words.push_back({fmt::format("--{}", replace(key.name, '_', '-')), std::string(key.doc)});
  for (const job::KeyInfo& key : job::key_table())
    all.words.push_back({fmt::format("--{}", replace(key.name, '_', '-')), key.doc});
  for (const std::string& brief : answer::short_key_names())
    all.words.push_back({fmt::format("--{}", brief), answer::full_key_name(brief)});
  return all;
}

Completions operands_of(const Verb& verb) {
  Completions all;
  all.files =
      verb.operands.find("FILE") != std::string_view::npos || verb.operands.find("LOG") != std::string_view::npos ||
      verb.operands.find("SNAPSHOT") != std::string_view::npos ||
      verb.operands.find("TRUTH") != std::string_view::npos || verb.operands.find("BEFORE") != std::string_view::npos;
  if (verb.name == "plan" || verb.name == "fit") all.words = model_names();
  return all;
}

Completions all_candidates(std::span<const Verb* const> verbs, std::span<const std::string> words) {
  Completions all;
  const auto named = [&verbs](std::string_view name) {
    return std::find_if(verbs.begin(), verbs.end(), [name](const Verb* verb) { return verb->name == name; });
  };
  if (words.size() <= 1 || (words.size() == 2 && words[0] == "help")) {
    for (const Verb* verb : verbs) all.words.push_back({std::string(verb->name), std::string(verb->summary)});
    if (words.size() <= 1) all.words.push_back({"help", "more about one of them"});
    return all;
  }
  const auto verb = named(words[0]);
  if (verb == verbs.end()) return all;
  if (auto values = values_after(**verb, words[words.size() - 2])) return *std::move(values);
  return words.back().starts_with('-') ? flags_of(**verb) : operands_of(**verb);
}

}  // namespace

Completions complete(std::span<const Verb* const> verbs, std::span<const std::string> words) {
  Completions all = all_candidates(verbs, words);
  const std::string typed = words.empty() ? std::string{} : words.back();
  std::erase_if(all.words, [&typed](const Completion& one) { return !one.text.starts_with(typed); });
  return all;
}

std::string_view completion_script(std::string_view shell) {
  if (shell == "bash")
    return R"(# Completion of plimsoll for bash: source it, or put it into /usr/share/bash-completion/completions/plimsoll
_plimsoll() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      local file
      while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    else
      COMPREPLY+=("${line%%$'\t'*}")
    fi
  done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
}
complete -F _plimsoll plimsoll
)";
  if (shell == "zsh")
    return R"(#compdef plimsoll
# Completion of plimsoll for zsh: put it as _plimsoll into a folder of $fpath
_plimsoll() {
  local line
  local -a described
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      _files
    else
      described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    fi
  done < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  (( ${#described} )) && _describe plimsoll described
}
compdef _plimsoll plimsoll
)";
  if (shell == "fish")
    return R"(# Completion of plimsoll for fish: put it into ~/.config/fish/completions/plimsoll.fish
function __plimsoll_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] complete -- $words[2..-1] 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c plimsoll -f -a '(__plimsoll_complete)'
)";
  return {};
}

}  // namespace plimsoll::cli
