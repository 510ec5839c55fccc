// SPDX-License-Identifier: Apache-2.0
#include "rl/keys.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "base/text.h"
#include "job/keys.h"
#include "job/read.h"

namespace plimsoll::rl {

using document::Node;
using job::in_key_spelling;

namespace {

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
  return job::unknown_name(name, candidates);
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

std::string type_name(const Key& key) { return job::type_name<Run>(key.field); }

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
  auto done = job::set_field(run, key->field, key->range, value);
  if (!done) return tl::make_unexpected(job::refused_value(std::move(done.error()), key->name, value, type_name(*key)));
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
  const std::optional<Node> value = job::get_field(run, key->field);
  if (!value) return {};
  return value->is_null() ? "unset" : document::to_text(*value);
}

}  // namespace plimsoll::rl
