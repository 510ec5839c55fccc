// SPDX-License-Identifier: Apache-2.0
// plimsoll read: what was understood of these files, key by key, what was passed over, and what is missing.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/job_input.h"
#include "cli/json_writer.h"
#include "cli/table.h"
#include "cli/verb.h"

namespace plimsoll::cli {

namespace {

struct ReadAnswer {
  job::Job job;
  std::vector<job::KeyOrigin> keys;  // those that a file or flag gives
  std::vector<std::string> missing;  // what keeps the job from being answered
};

std::vector<job::KeyOrigin> given_keys(const std::vector<job::KeyOrigin>& all, bool with_defaults) {
  std::vector<job::KeyOrigin> keys;
  for (const job::KeyOrigin& key : all) {
    const bool is_given = key.origin.kind == job::OriginKind::kFile || key.origin.kind == job::OriginKind::kSetting;
    if (is_given || (with_defaults && !key.value.empty())) keys.push_back(key);
  }
  return keys;
}

std::string source_of(const job::KeyOrigin& key) {
  switch (key.origin.kind) {
    case job::OriginKind::kFile:
    case job::OriginKind::kSetting:
      return key.origin.where;
    case job::OriginKind::kDerived:
      return fmt::format("derived as {} does", key.origin.where);
    case job::OriginKind::kDefault:
      return fmt::format("default of {}", key.origin.where);
  }
  return {};
}

std::string to_json(const ReadAnswer& answer) {
  JsonWriter json;
  json.begin_object()
      .member("schema", 1)
      .member("framework", std::string{job::name_of(answer.job.framework)})
      .member("model", answer.job.model.name)
      .member("complete", answer.missing.empty());
  json.key("keys").begin_array();
  for (const job::KeyOrigin& key : answer.keys)
    json.begin_object(Layout::kInline)
        .member("key", key.key)
        .member("value", key.value)
        .member("from", source_of(key))
        .end_object();
  json.end_array();
  const auto list = [&json](std::string_view name, const std::vector<std::string>& texts) {
    json.key(name).begin_array();
    for (const std::string& text : texts) json.value(text);
    json.end_array();
  };
  list("notes", answer.job.notes);
  list("warnings", answer.job.warnings);
  list("missing", answer.missing);
  json.end_object();
  return json.take();
}

std::string to_text(const ReadAnswer& answer, const Console& console) {
  Table table({{"key"}, {"value", Align::kLeft, true}, {"from", Align::kLeft, true}});
  const model::Architecture& model = answer.job.model;
  table.add_row({"framework", std::string{job::name_of(answer.job.framework)}, ""});
  if (!model.layers.empty())
    table.add_row({"model", model.name, fmt::format("{} layers, width {}", model.depth(), model.hidden)});
  for (const job::KeyOrigin& key : answer.keys) table.add_row({key.key, key.value, source_of(key)});
  std::string text = table.to_text(console.width, console.colour_out);
  for (const std::string& missing : answer.missing) text += fmt::format("missing: {}\n", missing);
  return text;
}

Result<ExitCode> run(const Arguments& arguments, const Console& console) {
  if (arguments.operands.empty()) return usage_error("a file is missing", "plimsoll read train.yaml");
  PLIMSOLL_TRY(request, read_input(arguments));
  std::vector<job::Problem> problems;
  PLIMSOLL_TRY(job, job::resolve(request, problems));
  PLIMSOLL_TRY(all, job::origins(request, job));
  ReadAnswer answer{std::move(job), given_keys(all, arguments.has("all")), {}};
  for (const job::Problem& problem : problems)
    answer.missing.push_back(to_string(problem.error) +
                             (problem.error.hint.empty() ? "" : fmt::format(" ({})", problem.error.hint)));
  if (answer.missing.empty())
    if (const auto whole = job::resolve(request); !whole)
      answer.missing.push_back(to_string(whole.error()) +
                               (whole.error().hint.empty() ? "" : fmt::format(" ({})", whole.error().hint)));
  console.print(arguments.has("json") ? to_json(answer) : to_text(answer, console));
  for (const std::string& note : answer.job.notes) console.note(note);
  for (const std::string& warning : answer.job.warnings) console.warn(warning);
  return answer.missing.empty() ? ExitCode::kYes : ExitCode::kNo;
}

std::vector<Flag> flags() {
  std::vector<Flag> all = job_flags();
  all.push_back({.name = "all", .argument = "", .help = "also the keys that the framework decides"});
  return all;
}

}  // namespace

extern const Verb kRead;
const Verb kRead = {
    .name = "read",
    .summary = "what was understood of the files of a job, and what is missing",
    .operands = "FILE...",
    .most_operands = -1,
    .details =
        "Reads files as fit does and shows every key that they or flags set, with its value and where it came from; "
        "what was passed over, and what is not counted; and what is missing before fit can answer. The first thing to "
        "run on a strange file.\n"
        "\n"
        "Exit code 0 when fit would have an answer, 1 when something is missing, 3 when a file cannot be read.",
    .flags = flags(),
    .takes_keys = true,
    .examples = {{"plimsoll read train.yaml", "what a configuration says"},
                 {"plimsoll read train.sh --script-args \"8B 16\"", "a script that takes arguments"}},
    .run = run,
};

}  // namespace plimsoll::cli
