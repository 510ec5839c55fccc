// SPDX-License-Identifier: Apache-2.0
#include "answer/listing.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "answer/json.h"
#include "base/text.h"
#include "job/read.h"
#include "job/short_names.h"

namespace plimsoll::answer {

namespace {

FrameworkName described(const job::Alias& alias) {
  const std::string name(alias.name);
  const std::string target(alias.target);
  switch (alias.kind) {
    case job::AliasKind::kKey:
      return {name, "key", target};
    case job::AliasKind::kInverse:
      return {name, "key", fmt::format("{}, the other way round", target)};
    case job::AliasKind::kNoEffect:
      return {name, "no effect", {}};
    case job::AliasKind::kNotModelled:
      return {name, "not modelled", target};
    case job::AliasKind::kRefused:
      return {name, "refused", target};
  }
  return {name, {}, target};
}

}  // namespace

bool is_asked_for(std::string_view text, const std::vector<std::string>& names) {
  const std::string wanted = lower(text);
  return wanted.empty() || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return lower(name).find(wanted) != std::string::npos;
         });
}

tl::unexpected<Error> nothing_matches(std::string_view text, std::string_view noun,
                                      const std::vector<std::string>& names) {
  std::string meant = nearest(text, names);
  // "micro_bach" for micro_batch_size: the name whose beginning is nearest.
  std::map<std::string, std::string> beginnings;
  for (const std::string& name : names)
    for (const std::size_t length : {text.size(), text.size() + 1})
      if (length < name.size()) beginnings.emplace(name.substr(0, length), name);
  if (meant.empty() && text.size() >= 4) {
    std::vector<std::string> cut;
    for (const auto& [beginning, name] : beginnings) cut.push_back(beginning);
    if (const std::string near = nearest(text, cut); !near.empty()) meant = beginnings.at(near);
  }
  return bad_input(fmt::format("no {} has '{}' in its name", noun, text),
                   meant.empty() ? std::string{} : fmt::format("did you mean {}?", meant));
}

Result<Models> find_models(std::string_view text) {
  Models models;
  std::vector<std::string> all_names;
  for (const model::CatalogEntry& entry : model::catalog_entries()) {
    std::vector<std::string> names = entry.aliases;
    names.push_back(entry.name);
    if (is_asked_for(text, names)) {
      PLIMSOLL_TRY(architecture, model::find_model(entry.name));
      models.push_back({&entry, std::move(architecture)});
    }
    all_names.insert(all_names.end(), names.begin(), names.end());
  }
  if (models.empty()) return nothing_matches(text, "model", all_names);
  return models;
}

std::string to_json(const Models& models) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).key("models").begin_array();
  for (const ListedModel& listed : models) {
    const model::CatalogEntry& entry = *listed.entry;
    json.begin_object().member("name", entry.name).member("parameters", entry.parameters);
    if (entry.active_parameters > 0) json.member("active_parameters", entry.active_parameters);
    if (entry.mtp_parameters > 0) json.member("mtp_parameters", entry.mtp_parameters);
    json.member("num_layers", listed.architecture.depth())
        .member("hidden_size", listed.architecture.hidden)
        .member("vocab_size", listed.architecture.vocab);
    write_texts(json, "aliases", entry.aliases, Layout::kInline);
    json.member("source", entry.source).end_object();
  }
  return json.end_array().end_object().take();
}

Result<Gpus> find_gpus(std::string_view text) {
  Gpus gpus;
  std::vector<std::string> all_names;
  for (const cluster::Gpu& gpu : cluster::catalog_gpus()) {
    if (is_asked_for(text, {gpu.id, gpu.name})) gpus.push_back(&gpu);
    all_names.push_back(gpu.id);
  }
  if (gpus.empty()) return nothing_matches(text, "GPU", all_names);
  return gpus;
}

std::string to_json(const Gpus& gpus) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).key("gpus").begin_array();
  for (const cluster::Gpu* gpu : gpus)
    json.begin_object()
        .member("id", gpu->id)
        .member("name", gpu->name)
        .member("architecture", name_of(gpu->architecture))
        .member("capacity_bytes", gpu->capacity)
        .member("capacity_is_measured", gpu->capacity_is_measured)
        .member("source", gpu->source)
        .end_object();
  return json.end_array().end_object().take();
}

Result<Keys> find_keys(std::string_view text) {
  Keys keys;
  for (const job::KeyInfo& key : job::key_table())
    if (is_asked_for(text, {key.name, key.section})) keys.push_back(&key);
  if (!keys.empty()) return keys;
  // "environment", "nccl": variables are no rows of the table, since any name may be one.
  std::vector<std::string> variables;
  for (const job::KnownVariable& variable : job::known_variables())
    if (is_asked_for(text, {fmt::format("environment.{}", variable.name)})) variables.emplace_back(variable.name);
  if (!variables.empty())
    return bad_input(fmt::format("no key has '{}' in its name, but variables of [environment] have", text),
                     fmt::format("environment.NAME sets any variable, --environment.{} for one; known are {}",
                                 variables.front(), join(variables, ", ")));
  return nothing_matches(text, "key", job::key_names());
}

std::string to_json(const Keys& keys) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).key("keys").begin_array();
  for (const job::KeyInfo* key : keys)
    json.begin_object(Layout::kInline)
        .member("name", key->name)
        .member("section", key->section)
        .member("type", key->type)
        .member("moves", job::name_of(key->moves))
        .member("help", key->doc)
        .end_object();
  return json.end_array().end_object().take();
}

Result<FrameworkNames> find_framework_names(job::Framework framework, std::string_view text) {
  FrameworkNames found{framework, {}};
  std::vector<std::string> spellings;
  for (const job::Alias& alias : job::alias_table(framework)) {
    FrameworkName name = described(alias);
    spellings.push_back(name.name);
    // A name is also found by what becomes of it: "refused".
    if (is_asked_for(text, {name.name, std::string(name.becomes)})) found.names.push_back(std::move(name));
  }
  if (found.names.empty()) return nothing_matches(text, "name", spellings);
  return found;
}

std::string to_json(const FrameworkNames& names) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).member("framework", job::name_of(names.framework));
  json.key("names").begin_array();
  for (const FrameworkName& name : names.names)
    json.begin_object(Layout::kInline)
        .member("name", name.name)
        .member("becomes", name.becomes)
        .member("meaning", name.meaning)
        .end_object();
  return json.end_array().end_object().take();
}

Result<AllocatorSettings> find_allocator_settings(std::string_view text) {
  AllocatorSettings settings;
  std::vector<std::string> names;
  for (const allocator::Setting& setting : allocator::setting_table()) {
    names.emplace_back(setting.name);
    if (is_asked_for(text, {names.back()})) settings.push_back(&setting);
  }
  if (settings.empty()) return nothing_matches(text, "setting", names);
  return settings;
}

std::string to_json(const AllocatorSettings& settings) {
  JsonWriter json;
  json.begin_object().member("schema", kSchema).key("settings").begin_array();
  for (const allocator::Setting* setting : settings)
    json.begin_object(Layout::kInline)
        .member("name", setting->name)
        .member("since", fmt::format("{}.{}", setting->since.major, setting->since.minor))
        .member("simulated", setting->parse != nullptr)
        .member("meaning", setting->doc)
        .end_object();
  return json.end_array().end_object().take();
}

std::vector<std::string> short_key_names() {
  std::vector<std::string> names;
  for (const auto& [brief, full] : job::kShortNames) names.emplace_back(brief);
  return names;
}

}  // namespace plimsoll::answer
