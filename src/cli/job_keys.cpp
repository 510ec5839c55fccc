// SPDX-License-Identifier: Apache-2.0
#include "cli/job_keys.h"

#include <algorithm>
#include <utility>

#include "answer/input.h"
#include "answer/listing.h"
#include "job/keys.h"
#include "job/read.h"

namespace plimsoll::cli {

namespace {

KeyKind kind_of_canonical(std::string_view key) {
  const std::vector<job::KeyInfo>& table = job::key_table();
  const auto found = std::find_if(table.begin(), table.end(), [key](const auto& row) { return row.name == key; });
  if (found == table.end()) return KeyKind::kUnknown;
  return found->type.starts_with("boolean") ? KeyKind::kSwitch : KeyKind::kValue;
}

KeyKind kind_of(std::string_view key) {
  if (key.starts_with("environment.")) return KeyKind::kValue;
  if (const KeyKind kind = kind_of_canonical(key); kind != KeyKind::kUnknown) return kind;
  for (const job::Framework framework : job::all_frameworks()) {
    const job::Alias* alias = job::find_alias(framework, key);
    if (alias == nullptr) continue;
    // Names without an effect on memory have no type; as switches they do not swallow a file.
    return alias->kind == job::AliasKind::kKey ? kind_of_canonical(alias->target) : KeyKind::kSwitch;
  }
  return KeyKind::kUnknown;
}

}  // namespace

KeySet job_keys() {
  std::vector<std::string> names = job::key_names();
  for (std::string& brief : answer::short_key_names()) names.push_back(std::move(brief));
  return {kind_of, answer::full_key_name, std::move(names)};
}

}  // namespace plimsoll::cli
