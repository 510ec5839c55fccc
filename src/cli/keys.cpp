// SPDX-License-Identifier: Apache-2.0
// plimsoll keys: the keys of a job, each of which is also a flag of fit and a key of --sweep.
#include "job/keys.h"

#include <fmt/format.h>

#include "allocator/setting_table.h"
#include "base/text.h"
#include "cli/json_writer.h"
#include "cli/listing.h"
#include "cli/reference.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "job/read.h"

namespace plimsoll::cli {

namespace {

using Keys = std::vector<const job::KeyInfo*>;

std::string to_json(const Keys& keys) {
  JsonWriter json;
  json.begin_object().member("schema", 1).key("keys").begin_array();
  for (const job::KeyInfo* key : keys)
    json.begin_object(Layout::kInline)
        .member("name", key->name)
        .member("section", key->section)
        .member("type", key->type)
        .member("help", key->doc)
        .end_object();
  return json.end_array().end_object().take();
}

std::string to_table(const Keys& keys, const Console& console) {
  Table table({{"key"}, {"section"}, {"value", Align::kLeft, true}, {"meaning", Align::kLeft, true}});
  for (const job::KeyInfo* key : keys) table.add_row({key->name, key->section, key->type, key->doc});
  return table.to_text(console.width, console.colour_out);
}

// A name is also found by what becomes of it: plimsoll keys refused --framework deepspeed.
Result<ExitCode> list_framework(const std::string& text, const Arguments& wanted, const Console& console) {
  const std::optional<job::Framework> framework = job::from_name<job::Framework>(text);
  if (!framework)
    return usage_error(fmt::format("--framework is '{}'; wanted one of {}", text, job::choices<job::Framework>()));
  std::vector<FrameworkName> names;
  std::vector<std::string> spellings;
  for (const FrameworkName& name : framework_names(*framework)) {
    spellings.push_back(name.name);
    if (is_asked_for(wanted, {name.name, std::string(name.becomes)})) names.push_back(name);
  }
  if (names.empty()) return nothing_matches(wanted, "name", spellings);
  console.print(wanted.has("json") ? framework_names_json(*framework, names) : framework_names_table(names, console));
  return ExitCode::kYes;
}

std::string settings_json(const std::vector<const allocator::Setting*>& settings) {
  JsonWriter json;
  json.begin_object().member("schema", 1).key("settings").begin_array();
  for (const allocator::Setting* setting : settings)
    json.begin_object(Layout::kInline)
        .member("name", setting->name)
        .member("since", fmt::format("{}.{}", setting->since.major, setting->since.minor))
        .member("simulated", setting->parse != nullptr)
        .member("meaning", setting->doc)
        .end_object();
  return json.end_array().end_object().take();
}

std::string settings_table(const std::vector<const allocator::Setting*>& settings, const Console& console) {
  Table table(
      {{"setting"}, {"PyTorch", Align::kRight}, {"meaning", Align::kLeft, true}, {"replay tries", Align::kLeft, true}});
  for (const allocator::Setting* setting : settings)
    table.add_row({std::string(setting->name), fmt::format("{}.{}", setting->since.major, setting->since.minor),
                   std::string(setting->doc),
                   std::string(setting->to_search.empty() ? setting->to_show : setting->to_search)});
  return table.to_text(console.width, console.colour_out);
}

Result<ExitCode> list_allocator(const Arguments& wanted, const Console& console) {
  std::vector<const allocator::Setting*> settings;
  std::vector<std::string> names;
  for (const allocator::Setting& setting : allocator::setting_table()) {
    names.emplace_back(setting.name);
    if (is_asked_for(wanted, {names.back()})) settings.push_back(&setting);
  }
  if (settings.empty()) return nothing_matches(wanted, "setting", names);
  console.print(wanted.has("json") ? settings_json(settings) : settings_table(settings, console));
  return ExitCode::kYes;
}

Result<ExitCode> run(const Arguments& arguments, const Console& console) {
  Arguments wanted = arguments;
  // A key is asked for by its flag's spelling as well.
  if (!wanted.operands.empty()) wanted.operands[0] = replace(wanted.operands[0], '-', '_');
  if (arguments.has("allocator") && arguments.has("framework"))
    return usage_error("--allocator and --framework are two lists; give one of them");
  if (arguments.has("allocator")) return list_allocator(wanted, console);
  if (const auto framework = arguments.value("framework")) return list_framework(*framework, wanted, console);
  Keys keys;
  for (const job::KeyInfo& key : job::key_table())
    if (is_asked_for(wanted, {key.name, key.section})) keys.push_back(&key);
  if (keys.empty()) return nothing_matches(wanted, "key", job::key_names());
  console.print(arguments.has("json") ? to_json(keys) : to_table(keys, console));
  console.next("plimsoll fit JOB --sweep micro_batch_size=1,2,4");
  return ExitCode::kYes;
}

}  // namespace

extern const Verb kKeys;
const Verb kKeys = {
    .name = "keys",
    .summary = "list the keys of a job",
    .operands = "[TEXT]",
    .most_operands = 1,
    .details =
        "Lists the keys that a job file may hold, or those with TEXT in their name or section. Each is also a flag of "
        "fit (--micro-batch-size 2) and a key of --sweep. Names are Megatron's where several frameworks have the "
        "knob; the other frameworks' own names are understood too: --framework lists them, and says whether each "
        "becomes a key, has no effect on memory, is not modelled (a warning) or is refused (an error). Keys that are "
        "spelled the same everywhere are in the first list only.",
    .flags = {{.name = "framework", .argument = "NAME", .help = "the names in this framework's own files instead"},
              {.name = "allocator", .argument = "", .help = "the settings of PYTORCH_CUDA_ALLOC_CONF instead"}},
    .takes_keys = false,
    .examples = {{"plimsoll keys recompute", "what decides which activations are made again"},
                 {"plimsoll keys parallel", "how a job is split over GPUs"},
                 {"plimsoll keys refused --framework torchtitan", "what makes a torchtitan job an error"},
                 {"plimsoll keys --allocator", "what PYTORCH_CUDA_ALLOC_CONF may hold"}},
    .run = run,
};

}  // namespace plimsoll::cli
