// SPDX-License-Identifier: Apache-2.0
#include "rl/frameworks/tool_values.h"

#include <algorithm>

#include "base/file.h"
#include "base/text.h"
#include "job/keys.h"
#include "job/readers/launch.h"
#include "job/readers/parse.h"
#include "job/readers/resolve.h"
#include "job/readers/shell.h"
#include "job/value.h"
#include "rl/frameworks/settings.h"

namespace plimsoll::rl {

using document::Node;

void take_rows(std::span<const Row> rows, Values& values, Settings& settings) {
  for (const Row& row : rows)
    if (const std::string word = values.take_word(row.name); !word.empty() && word != "null")
      put_setting(settings, row.key, word);
}

std::int64_t integer(const Settings& settings, std::string_view key) {
  const Node node = document::parse_scalar(setting(settings, key));
  return node.is_integer() && node.integer > 0 && node.integer < (1 << 26) ? node.integer : 0;
}

std::int64_t take_count(Values& values, std::string_view path, std::int64_t otherwise) {
  const auto number = values.take_integer(path);
  return number && *number > 0 && *number < kMost ? *number : otherwise;
}

void take_model(const std::string& word, Settings& settings) {
  if (!word.empty()) put_setting(settings, "model", word);
}

Result<Values> flags_of_script(std::string_view text, const std::string& path,
                               std::span<const std::string_view> wanted) {
  PLIMSOLL_TRY(shell, job::read_shell(text, beside(path)));
  const auto is_wanted = [&wanted](const job::ShellWord& word) {
    return job::is_flag(word.text) &&
           std::find(wanted.begin(), wanted.end(), job::key_of_flag(word.text)) != wanted.end();
  };
  const job::ShellCommand* best = nullptr;
  std::int64_t most = 0;
  for (const job::ShellCommand& command : shell.commands) {
    const auto count = std::count_if(command.words.begin(), command.words.end(), is_wanted);
    if (count > most) {
      most = count;
      best = &command;
    }
  }
  if (best == nullptr) return bad_input("no command that trains is in the script");
  const job::Launch launch = job::split_command(*best);
  const job::LaunchFlags read = job::read_flags(launch.arguments, [](const std::string&) { return false; });
  Values values;
  values.put("program", job::text_node(launch.program));
  std::map<std::string, std::string> environment = shell.environment;
  for (const auto& [name, value] : best->environment) environment[name] = value;
  job::Draft launcher;
  job::read_launcher(launch, shell.batch_options, environment, launcher);
  for (const job::Assignment& given : launcher.assignments)
    if (given.key == "gpus") values.put("launched_gpus", given.value);
  for (const job::LaunchFlag& flag : read.flags) {
    const auto unknown = std::find_if(flag.values.begin(), flag.values.end(),
                                      [](const job::ShellWord& word) { return !word.unknown.empty(); });
    if (unknown != flag.values.end()) values.put_unknown(job::key_of_flag(flag.written), unknown->unknown.front());
  }
  const Node table = job::table_of(read);
  for (const auto& [key, value] : table.members)
    if (values.unknown().find(key) == values.unknown().end()) values.put(key, value);
  read_accelerate_file(launch.accelerate_config, parent_folder(path), values);
  return values;
}

void read_accelerate_file(const std::string& name, const std::string& folder, Values& values) {
  const auto found = name.empty() ? Result<std::string>(bad_input("none")) : job::locate(name, folder);
  if (!found) return;
  const auto text = job::read_named_file(*found);
  const auto root = text ? job::parse_json_or_yaml(*text) : Result<Node>(bad_input("none"));
  if (!root || !root->is_object()) return;
  if (const Node* type = root->find("distributed_type"); type != nullptr && type->is_string())
    values.put("train_backend", job::text_node(lower(type->text)));
  const Node* engine = root->find("deepspeed_config");
  if (engine != nullptr && engine->is_object())
    if (const Node* stage = engine->find("zero_stage"); stage != nullptr) values.put("zero_stage", *stage);
  if (const Node* processes = root->find("num_processes"); processes != nullptr)
    values.put("launched_gpus", *processes);
}

}  // namespace plimsoll::rl
