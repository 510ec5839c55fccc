// SPDX-License-Identifier: Apache-2.0
// plimsoll keys: the keys of a job, each of which is also a flag of fit and a key of --sweep.
#include "base/text.h"
#include "cli/json_writer.h"
#include "cli/listing.h"
#include "cli/verb.h"
#include "job/read.h"

namespace plimsoll::cli {

namespace {

std::string to_json(const std::vector<std::string>& keys) {
  JsonWriter json;
  json.begin_object().member("schema", 1).key("keys").begin_array();
  for (const std::string& key : keys) json.value(key);
  return json.end_array().end_object().take();
}

Result<ExitCode> run(const Arguments& arguments, const Console& console) {
  Arguments wanted = arguments;
  // A key is asked for by its flag's spelling as well.
  if (!wanted.operands.empty()) wanted.operands[0] = replace(wanted.operands[0], '-', '_');
  std::vector<std::string> keys;
  for (const std::string& key : job::key_names())
    if (is_asked_for(wanted, {key})) keys.push_back(key);
  if (keys.empty()) return nothing_matches(wanted, "key", job::key_names());
  console.print(arguments.has("json") ? to_json(keys) : join(keys, "\n") + "\n");
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
        "Lists the keys that a job file may hold, or those with TEXT in them. Each is also a flag of fit "
        "(--micro-batch-size 2) and a key of --sweep. Names are Megatron's where several frameworks have the "
        "knob; the other frameworks' own names are understood too.",
    .flags = {},
    .takes_keys = false,
    .examples = {{"plimsoll keys recompute", "what decides which activations are made again"}},
    .run = run,
};

}  // namespace plimsoll::cli
