// SPDX-License-Identifier: Apache-2.0
#include "job/keys.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "base/suggest.h"
#include "base/text.h"
#include "job/keys/table.h"
#include "job/read.h"
#include "job/short_names.h"

namespace plimsoll::job {

using document::Node;

namespace {

const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      {"model", model_key_rows(), true},
      {"model", vocabulary_key_rows()},
      {"cluster", cluster_key_rows()},
      {"parallel", parallel_key_rows()},
      {"batch", batch_key_rows()},
      {"precision", precision_key_rows()},
      {"recompute", recompute_key_rows()},
      {"optimizer", optimizer_key_rows()},
      {"sharding", sharding_key_rows()},
      {"offload", offload_key_rows()},
      {"moe", moe_key_rows()},
      {"adapter", adapter_key_rows()},
      {"kernels", kernel_key_rows()},
  };
  return all;
}

}  // namespace

bool is_off(const Node& value) {
  if (value.is_null() || (value.is_bool() && !value.boolean)) return true;
  if (value.is_number()) return value.as_real() == 0;
  if (value.is_array()) return value.items.empty();
  if (value.is_object()) return value.members.empty();
  return equals_ignoring_case(value.text, "none") || equals_ignoring_case(value.text, "false") || value.text == "0" ||
         value.text == "0.0" || equals_ignoring_case(value.text, "no");
}

std::string_view name_of(Moves moves) {
  switch (moves) {
    case Moves::kBoth:
      return "bytes, seconds";
    case Moves::kBytes:
      return "bytes";
    case Moves::kSeconds:
      return "seconds";
    case Moves::kNeither:
      return "neither";
  }
  return {};
}

const std::vector<KeyInfo>& key_table() {
  static const std::vector<KeyInfo> table = [] {
    std::vector<KeyInfo> rows;
    for (const Section& section : sections())
      for (const Key& key : section.keys)
        rows.push_back(KeyInfo{std::string(key.name), std::string(section.name), type_name<Job>(key.field),
                               std::string(key.doc), key.moves});
    return rows;
  }();
  return table;
}

const std::vector<std::string>& key_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const KeyInfo& key : key_table()) all.push_back(key.name);
    return all;
  }();
  return names;
}

FoundKey find_key(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, FoundKey> map;
    for (const Section& section : sections())
      for (const Key& key : section.keys) map.emplace(key.name, FoundKey{&key, &section});
    return map;
  }();
  const auto found = index.find(name);
  return found == index.end() ? FoundKey{} : found->second;
}

bool is_key(std::string_view name) { return find_key(name).key != nullptr; }

Error bad_target(std::string_view name, std::string_view target) {
  return Error{
      Code::kBadInput,
      fmt::format("{}: the table of names has it as '{}', which is no key: a mistake of this program", name, target),
      {},
      "report it with the file"};
}

Status set_canonical(Job& job, const FoundKey& found, const Node& value) {
  job.given.insert(std::string(found.key->name));
  if (found.section->describes_model) {
    if (!job.model_keys.any && job.base_model.layers.empty()) job.base_model = job.model;
    job.model_keys.any = true;
  }
  const Key& key = *found.key;
  auto done = set_field(job, key.field, key.range, value);
  if (done) return done;
  return tl::make_unexpected(refused_value(std::move(done.error()), key.name, value, type_name<Job>(key.field)));
}

bool is_harmless(const Alias& alias, const Node& value) {
  return is_off(value) || (!alias.harmless.empty() && equals_ignoring_case(document::to_text(value), alias.harmless));
}

std::span<const Alias> alias_table(Framework framework) { return facts_of(framework).aliases(); }

const Alias* find_alias(Framework framework, std::string_view name) { return find_alias(alias_table(framework), name); }

const Alias* find_alias(std::span<const Alias> table, std::string_view name) {
  const Alias* family = nullptr;
  for (const Alias& row : table) {
    if (row.name == name) return &row;
    const std::string_view stem = row.name.substr(0, row.name.size() - 1);
    if (row.name.back() == '*' && name.size() > stem.size() && name.substr(0, stem.size()) == stem) family = &row;
  }
  return family;
}

namespace {

const Alias* find_in_any(Framework first, std::string_view name) {
  const Alias* alias = find_alias(first, name);
  for (const Framework framework : all_frameworks())
    if (alias == nullptr) alias = find_alias(framework, name);
  return alias;
}

// A key that is set after the files were read replaces the other ways to say the same thing.
void drop_rivals(Job& job, std::string_view key) {
  const auto forget = [&job, key](std::string_view rival) {
    if (rival == key) return false;
    job.given.erase(std::string(rival));
    job.stated.erase(std::string(rival));
    return true;
  };
  if (key == "virtual_pipeline_model_parallel_size" || key == "num_layers_per_virtual_pipeline_stage" ||
      key == "pipeline_model_parallel_layout") {
    if (forget("virtual_pipeline_model_parallel_size")) job.parallel.virtual_pipeline = 1;
    if (forget("num_layers_per_virtual_pipeline_stage")) job.parallel.layers_per_virtual_stage.reset();
    if (forget("pipeline_model_parallel_layout")) job.parallel.layout.clear();
  } else if (key == "global_batch_size" || key == "gradient_accumulation_steps") {
    if (forget("global_batch_size")) job.batch.global_batch.reset();
    if (forget("gradient_accumulation_steps")) job.batch.accumulation.reset();
  } else if (key == "bf16" || key == "fp16") {
    if (forget("bf16")) job.asked.bf16 = false;
    if (forget("fp16")) job.asked.fp16 = false;
  } else if (key == "tensor_model_parallel_size" || key == "make_vocab_size_divisible_by" || key == "vocab_size") {
    job.padded_vocab.reset();  // it was padded for the old value
  }
}

}  // namespace

Error unknown_key(std::string_view key, Framework framework) {
  std::vector<std::string> candidates = key_names();
  for (const Alias& alias : alias_table(framework)) candidates.emplace_back(alias.name);
  for (const auto& [brief, full] : kShortNames) candidates.emplace_back(brief);
  candidates.insert(candidates.end(), {"framework", "model", "environment"});  // of a job file, beside its keys
  return unknown_name(key, candidates);
}

std::string canonical_name(std::string_view key) {
  std::string name = in_key_spelling(key);
  if (is_key(name)) return name;
  const Alias* alias = find_in_any(kCanonical, name);
  const bool sets = alias != nullptr && (alias->kind == AliasKind::kKey || alias->kind == AliasKind::kInverse);
  return sets ? std::string(alias->target) : name;
}

Status set_key(Job& job, std::string_view key, const Node& value) {
  constexpr std::string_view kEnvironment = "environment.";
  if (key.substr(0, kEnvironment.size()) == kEnvironment) {
    PLIMSOLL_TRY(text, to_word(value));
    job.environment[std::string(key.substr(kEnvironment.size()))] = std::move(text);
    return {};
  }
  const std::string name = in_key_spelling(key);
  drop_rivals(job, canonical_name(name));
  job.stated[name] = document::to_text(value);
  job.stated[canonical_name(name)] = job.stated[name];
  if (const FoundKey found = find_key(name); found.key != nullptr) return set_canonical(job, found, value);
  const Alias* alias = find_in_any(job.framework, name);
  if (alias == nullptr) return tl::make_unexpected(unknown_key(key, job.framework));
  switch (alias->kind) {
    case AliasKind::kKey:
    case AliasKind::kInverse: {
      const FoundKey found = find_key(alias->target);
      if (found.key == nullptr) return tl::make_unexpected(bad_target(name, alias->target));
      if (alias->kind == AliasKind::kKey) return set_canonical(job, found, value);
      const auto flag = to_bool(value);
      if (!flag) return bad_input(fmt::format("{}: {}", name, flag.error().message));
      return set_canonical(job, found, bool_node(!*flag));
    }
    case AliasKind::kNoEffect:
      return {};
    case AliasKind::kNotModelled:
      if (!is_harmless(*alias, value)) warn(job, fmt::format("{}: {}", name, alias->target));
      return {};
    case AliasKind::kRefused:
      if (is_harmless(*alias, value)) return {};
      return bad_input(fmt::format("{}: {}", name, alias->target));
  }
  return {};
}

std::optional<Node> value_of(const Job& job, std::string_view name) {
  const FoundKey found = find_key(name);
  if (found.key == nullptr) return std::nullopt;
  return get_field(job, found.key->field);
}

void warn(Job& job, std::string text) {
  if (std::find(job.warnings.begin(), job.warnings.end(), text) == job.warnings.end())
    job.warnings.push_back(std::move(text));
}

}  // namespace plimsoll::job
