// SPDX-License-Identifier: Apache-2.0
// plimsoll keys: the keys of a job, each of which is also a flag of fit and a key of --sweep.
#include <fmt/format.h>

#include "answer/input.h"
#include "answer/listing.h"
#include "base/text.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

std::string to_table(const answer::Keys& keys, const Console& console) {
  Table table({{"key"},
               {"section"},
               {"value", Align::kLeft, true},
               {"moves", Align::kLeft, true},
               {"meaning", Align::kLeft, true}});
  for (const job::KeyInfo* key : keys)
    table.add_row({key->name, key->section, key->type, std::string(job::name_of(key->moves)), key->doc});
  return table.to_text(console.width, console.colour_out);
}

std::string to_table(const answer::FrameworkNames& names, const Console& console) {
  Table table({{"name", Align::kLeft, true}, {"becomes"}, {"meaning", Align::kLeft, true}});
  for (const answer::FrameworkName& name : names.names)
    table.add_row({name.name, std::string(name.becomes), name.meaning});
  return table.to_text(console.width, console.colour_out);
}

std::string to_table(const answer::AllocatorSettings& settings, const Console& console) {
  Table table(
      {{"setting"}, {"PyTorch", Align::kRight}, {"meaning", Align::kLeft, true}, {"replay tries", Align::kLeft, true}});
  for (const allocator::Setting* setting : settings)
    table.add_row({std::string(setting->name), fmt::format("{}.{}", setting->since.major, setting->since.minor),
                   std::string(setting->doc),
                   std::string(setting->to_search.empty() ? setting->to_show : setting->to_search)});
  return table.to_text(console.width, console.colour_out);
}

Result<ExitCode> run_keys(const Arguments& arguments, const Console& console) {
  // A key is asked for by its flag's spelling as well.
  const std::string wanted = replace(arguments.operand(), '-', '_');
  if (arguments.has("allocator") && arguments.has("framework"))
    return usage_error("--allocator and --framework are two lists; give one of them");
  if (arguments.has("allocator")) {
    PLIMSOLL_TRY(settings, answer::find_allocator_settings(wanted));
    console.print(arguments.has("json") ? answer::to_json(settings) : to_table(settings, console));
    return ExitCode::kYes;
  }
  if (const auto name = arguments.value("framework")) {
    PLIMSOLL_TRY(framework, answer::framework_named(*name));
    PLIMSOLL_TRY(names, answer::find_framework_names(framework, wanted));
    console.print(arguments.has("json") ? answer::to_json(names) : to_table(names, console));
    return ExitCode::kYes;
  }
  PLIMSOLL_TRY(keys, answer::find_keys(wanted));
  console.print(arguments.has("json") ? answer::to_json(keys) : to_table(keys, console));
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
    .run = run_keys,
};

}  // namespace plimsoll::cli
