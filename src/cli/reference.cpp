// SPDX-License-Identifier: Apache-2.0
#include "cli/reference.h"

#include <fmt/format.h>

#include "cli/json_writer.h"
#include "cli/table.h"
#include "job/keys.h"

namespace plimsoll::cli {

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

std::vector<FrameworkName> framework_names(job::Framework framework) {
  std::vector<FrameworkName> names;
  for (const job::Alias& alias : job::alias_table(framework)) names.push_back(described(alias));
  return names;
}

std::string framework_names_table(const std::vector<FrameworkName>& names, const Console& console) {
  Table table({{"name", Align::kLeft, true}, {"becomes"}, {"meaning", Align::kLeft, true}});
  for (const FrameworkName& name : names) table.add_row({name.name, std::string(name.becomes), name.meaning});
  return table.to_text(console.width, console.colour_out);
}

std::string framework_names_json(job::Framework framework, const std::vector<FrameworkName>& names) {
  JsonWriter json;
  json.begin_object().member("schema", 1).member("framework", job::name_of(framework)).key("names").begin_array();
  for (const FrameworkName& name : names)
    json.begin_object(Layout::kInline)
        .member("name", name.name)
        .member("becomes", name.becomes)
        .member("meaning", name.meaning)
        .end_object();
  return json.end_array().end_object().take();
}

}  // namespace plimsoll::cli
