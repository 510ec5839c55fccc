// SPDX-License-Identifier: Apache-2.0
#include "cli/complete.h"

#include <algorithm>
#include <optional>
#include <set>

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
    const std::string_view sign = flag.name == "keep" ? "" : "=";
    for (const job::KeyInfo& key : job::key_table()) keys.push_back({fmt::format("{}{}", key.name, sign), key.doc});
    for (const std::string& brief : answer::short_key_names())
      keys.push_back({fmt::format("{}{}", brief, sign), answer::full_key_name(brief)});
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

// Values of a key of a job, by the type that its table names.
Completions values_of_type(std::string_view type) {
  return {choices(type), type == "text", type.starts_with("list of")};
}

constexpr std::string_view kEnvironment = "environment.";

// What an environment variable may be; of most it is not known.
Completions values_of_variable(std::string_view name) {
  return {name.ends_with("ALLOC_CONF") ? setting_names() : std::vector<Completion>{}, false, false};
}

// Behind KEY= of --sweep, which takes several, and of --fix.
Completions values_behind_key(std::string_view typed, bool several) {
  const std::size_t equals = typed.find('=');
  const std::string_view name = typed.substr(0, equals);
  const job::KeyInfo* const key = key_of_flag(name);
  Completions all;
  if (name.starts_with(kEnvironment)) all = values_of_variable(name);
  if (key != nullptr) all = values_of_type(key->type.starts_with("boolean") ? "true, false" : key->type);
  all.list = all.list || several;
  return all;
}

// What follows `--name`, where that wants a value.
std::optional<Completions> values_after(const Verb& verb, std::string_view word) {
  if (!word.starts_with("--")) return std::nullopt;
  const std::string_view name = word.substr(2);
  const std::vector<Flag> flags = all_flags(verb);
  const auto flag = std::find_if(flags.begin(), flags.end(), [name](const Flag& one) { return one.name == name; });
  if (flag != flags.end()) return flag->argument.empty() ? std::nullopt : std::optional(values_of(*flag));
  if (!verb.takes_keys) return std::nullopt;
  if (name.starts_with(kEnvironment)) return values_of_variable(name);
  if (const rl::Key* own = verb.keys == nullptr ? nullptr : rl::find_key(name); own != nullptr) {
    const std::string type = rl::type_name(*own);
    return type == "boolean" ? std::nullopt : std::optional(Completions{choices(type), type == "text"});
  }
  const job::KeyInfo* key = key_of_flag(name);
  if (key == nullptr || key->type.starts_with("boolean")) return std::nullopt;
  return values_of_type(key->type);
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
  for (const job::KnownVariable& variable : job::known_variables())
    all.words.push_back({fmt::format("--{}{}", kEnvironment, variable.name), std::string(variable.why)});
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
  const std::string& before = words[words.size() - 2];
  const std::string& typed = words.back();
  if ((before == "--sweep" || before == "--fix") && typed.find('=') != std::string::npos)
    return values_behind_key(typed, before == "--sweep");
  if (auto values = values_after(**verb, before)) return *std::move(values);
  if (const std::size_t equals = typed.find('='); typed.starts_with("--") && equals != std::string::npos)
    return values_after(**verb, typed.substr(0, equals)).value_or(Completions{});
  return typed.starts_with('-') ? flags_of(**verb) : operands_of(**verb);
}

// How much of the word stays as it is: --flag= and KEY=, and the values of a list that are there.
std::size_t begun(std::string_view typed, const Completions& all, bool is_value) {
  const std::size_t equals = is_value ? typed.find('=') : std::string_view::npos;
  std::size_t start = equals == std::string_view::npos ? 0 : equals + 1;
  if (!all.list) return start;
  if (typed.substr(start).starts_with('[')) ++start;
  const std::size_t comma = typed.rfind(',');
  return comma == std::string_view::npos || comma < start ? start : comma + 1;
}

}  // namespace

Completions complete(std::span<const Verb* const> verbs, std::span<const std::string> words) {
  Completions all = all_candidates(verbs, words);
  const std::string typed = words.empty() ? std::string{} : words.back();
  const bool is_key_and_value =
      words.size() > 1 && (words[words.size() - 2] == "--sweep" || words[words.size() - 2] == "--fix");
  const std::size_t start = begun(typed, all, typed.starts_with("--") || is_key_and_value);
  std::set<std::string> seen;  // a key may be a flag of its own, too
  const std::string listed = "," + typed.substr(0, start);
  if (all.list)
    std::erase_if(all.words, [&listed](const Completion& one) {
      const std::string there = one.text + ",";
      return listed.find("," + there) != std::string::npos || listed.find("=" + there) != std::string::npos ||
             listed.find("[" + there) != std::string::npos;
    });
  std::vector<Completion> found;
  for (Completion& one : all.words) {
    one.text.insert(0, typed, 0, start);
    if (one.text.starts_with(typed) && seen.insert(one.text).second) found.push_back(std::move(one));
  }
  all.words = std::move(found);
  return all;
}

std::string_view completion_script(std::string_view shell) {
  if (shell == "bash")
    return R"(# Completion of plimsoll for bash: source it, or put it into /usr/share/bash-completion/completions/plimsoll
_plimsoll() {
  local line word current=${COMP_WORDS[COMP_CWORD]} i
  # Bash ends words at = and :, plimsoll does not: --gpu=h100, KEY=VALUE and NAME:VALUE are one word each.
  local -a words=()
  local joins=
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == [=:]* && $COMP_WORDBREAKS == *"${word:0:1}"* && ${#words[@]} -gt 0 ]]; then
      words[-1]+=$word joins=yes
    elif [[ $joins ]]; then
      words[-1]+=$word joins=
    else
      words+=("$word")
    fi
  done
  local typed=${words[-1]-}
  [[ $current == [=:] ]] && current=
  local kept=${typed%"$current"} # of the word, what bash does not replace
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      local file
      while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$current")
    else
      line=${line%%$'\t'*}
      line=${line#"$kept"}
      [[ $line ]] && COMPREPLY+=("$line")
    fi
  done < <("${COMP_WORDS[0]}" complete -- "${words[@]}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:] ]] && compopt -o nospace 2>/dev/null
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
