// SPDX-License-Identifier: Apache-2.0
#include "rl/keys.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "base/suggest.h"
#include "base/text.h"
#include "job/keys.h"
#include "job/read.h"

namespace plimsoll::rl {

using document::Node;

namespace {

std::string in_key_spelling(std::string_view name) {
  std::string_view bare = trim(name);
  while (bare.starts_with('-')) bare.remove_prefix(1);
  return replace(bare, '-', '_');
}

template <class Enum>
Status set_choice(Enum& field, const Node& value) {
  PLIMSOLL_TRY(word, job::to_word(value));
  const auto found = from_name<Enum>(word);
  if (!found) return bad_input(fmt::format("found {}, wanted one of {}", job::shown(value), choices<Enum>()));
  field = *found;
  return {};
}

struct Setter {
  Run& run;
  const Node& value;
  const job::Range& range;

  Status operator()(Ref<std::int64_t> field) const {
    PLIMSOLL_TRY(number, job::to_integer(value, range));
    field(run) = number;
    return {};
  }
  Status operator()(Ref<std::optional<std::int64_t>> field) const {
    if (value.is_null()) {
      field(run).reset();
      return {};
    }
    PLIMSOLL_TRY(number, job::to_integer(value, range));
    field(run) = number;
    return {};
  }
  Status operator()(Ref<bool> field) const {
    PLIMSOLL_TRY(flag, job::to_bool(value));
    field(run) = flag;
    return {};
  }
  Status operator()(Ref<double> field) const {
    PLIMSOLL_TRY(number, job::to_real(value, range));
    field(run) = number;
    return {};
  }
  Status operator()(Ref<std::optional<double>> field) const {
    if (value.is_null()) {
      field(run).reset();
      return {};
    }
    PLIMSOLL_TRY(number, job::to_real(value, range));
    field(run) = number;
    return {};
  }
  Status operator()(Ref<std::string> field) const {
    PLIMSOLL_TRY(word, job::to_word(value));
    field(run) = word;
    return {};
  }
  template <class Enum>
  Status operator()(Ref<Enum> field) const {
    return set_choice(field(run), value);
  }
  Status operator()(const Custom& custom) const { return custom.set(run, value); }
};

struct Teller {
  Run& run;

  std::string operator()(Ref<std::int64_t> field) const { return std::to_string(field(run)); }
  std::string operator()(Ref<std::optional<std::int64_t>> field) const {
    return field(run) ? std::to_string(*field(run)) : "unset";
  }
  std::string operator()(Ref<bool> field) const { return field(run) ? "true" : "false"; }
  std::string operator()(Ref<double> field) const { return fmt::format("{}", field(run)); }
  std::string operator()(Ref<std::optional<double>> field) const {
    return field(run) ? fmt::format("{}", *field(run)) : "unset";
  }
  std::string operator()(Ref<std::string> field) const { return field(run); }
  template <class Enum>
  std::string operator()(Ref<Enum> field) const {
    return std::string{name_of(field(run))};
  }
  std::string operator()(const Custom& custom) const { return custom.tell == nullptr ? "" : custom.tell(run); }
};

struct Typer {
  std::string operator()(Ref<std::int64_t>) const { return "integer"; }
  std::string operator()(Ref<std::optional<std::int64_t>>) const { return "integer"; }
  std::string operator()(Ref<bool>) const { return "boolean"; }
  std::string operator()(Ref<double>) const { return "number"; }
  std::string operator()(Ref<std::optional<double>>) const { return "number"; }
  std::string operator()(Ref<std::string>) const { return "text"; }
  template <class Enum>
  std::string operator()(Ref<Enum>) const {
    return choices<Enum>();
  }
  std::string operator()(const Custom& custom) const { return std::string{custom.type}; }
};

// What the run decides for the trainer; given there too it would contradict.
constexpr std::pair<std::string_view, std::string_view> kDecidedByRun[] = {
    {"seq_length", "seq_len"},
    {"micro_batch_size", "seq_len (a micro-batch is one bin)"},
    {"global_batch_size", "prompts_batch_size_for_trainer"},
    {"gradient_accumulation_steps", "prompts_batch_size_for_trainer"},
    {"packed_sequences", "packing"},
    {"gpus", "trainer_num_workers"},
    {"gpu", "gpu"},
};

void put_trainer_key(Run& run, std::string key, std::string value) {
  std::erase_if(run.trainer_keys, [&](const auto& given) { return given.first == key; });
  run.trainer_keys.emplace_back(std::move(key), std::move(value));
}

Error unknown_key(std::string_view name, bool trainer) {
  std::vector<std::string> candidates;
  for (const Key& key : key_table()) {
    if (trainer && key.section != "trainer") continue;
    candidates.emplace_back(key.name);
    for (const std::string_view alias : split(key.aliases, ' '))
      if (!alias.empty()) candidates.emplace_back(alias);
  }
  candidates.insert(candidates.end(), job::key_names().begin(), job::key_names().end());
  candidates.insert(candidates.end(), {"framework", "name", "description"});  // of a file, beside its keys
  const std::string near = nearest(in_key_spelling(name), candidates);
  return Error{Code::kBadInput,
               fmt::format("unknown key {}", job::shown(job::text_node(std::string{name}))),
               {},
               near.empty() ? "" : fmt::format("did you mean '{}'?", near)};
}

}  // namespace

const Key* find_key(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const Key*> map;
    for (const Key& key : key_table()) {
      map.emplace(key.name, &key);
      for (const std::string_view alias : split(key.aliases, ' '))
        if (!alias.empty()) map.emplace(alias, &key);
    }
    return map;
  }();
  const std::string wanted = in_key_spelling(name);
  const auto found = index.find(wanted);
  return found == index.end() ? nullptr : found->second;
}

std::string type_name(const Key& key) { return std::visit(Typer{}, key.field); }

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Key& key : key_table())
    if (!key.section.empty() && std::find(names.begin(), names.end(), key.section) == names.end())
      names.emplace_back(key.section);
  return names;
}

Status set_key(Run& run, std::string_view name, const Node& value) {
  const Key* key = find_key(name);
  if (key == nullptr) return set_trainer_key(run, name, value);
  auto done = std::visit(Setter{run, value, key->range}, key->field);
  if (!done) {
    done.error().message = fmt::format("{}: {}", key->name, done.error().message);
    if (done.error().hint.empty()) done.error().hint = did_you_mean(document::to_text(value), type_name(*key));
    return done;
  }
  run.given.insert(std::string{key->name});
  return {};
}

Status set_trainer_key(Run& run, std::string_view name, const Node& value) {
  if (const Key* key = find_key(name); key != nullptr && key->section == "trainer") return set_key(run, name, value);
  const std::string canonical = job::canonical_name(in_key_spelling(name));
  for (const auto& [decided, by] : kDecidedByRun)
    if (canonical == decided)
      return bad_input(fmt::format("{} of the trainer follows from the run", canonical), fmt::format("set {}", by));
  bool known = job::is_key(canonical) || canonical.starts_with("environment.");
  for (const job::Framework framework : job::all_frameworks())
    known = known || job::find_alias(framework, in_key_spelling(name)) != nullptr;
  if (!known) return tl::make_unexpected(unknown_key(name, false));
  put_trainer_key(run, job::is_key(canonical) ? canonical : in_key_spelling(name), document::to_text(value));
  run.given.insert(canonical);
  return {};
}

std::string trainer_value(const Run& run, std::string_view canonical) {
  for (const auto& [given, value] : run.trainer_keys)
    if (given == canonical) return value;
  const auto value = job::value_of(run.trainer, canonical);
  return value ? document::to_text(*value) : std::string{};
}

std::string value_text(const Run& run, std::string_view name) {
  const Key* key = find_key(name);
  if (key == nullptr) {
    const std::string canonical = job::canonical_name(name);
    std::string value = trainer_value(run, canonical);
    if (constexpr std::string_view kVariable = "environment."; value.empty() && canonical.starts_with(kVariable)) {
      const auto found = run.trainer.environment.find(canonical.substr(kVariable.size()));
      value = found != run.trainer.environment.end() ? found->second : "unset";
    }
    return value;
  }
  // Refs are made for setting; telling writes nothing.
  return std::visit(Teller{const_cast<Run&>(run)}, key->field);
}

}  // namespace plimsoll::rl
