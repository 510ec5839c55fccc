// SPDX-License-Identifier: Apache-2.0
// The command of a script that starts a run of a tool that is not known.
#include <algorithm>

#include "base/file.h"
#include "job/common_words.h"
#include "job/readers/launch.h"
#include "job/readers/omega.h"
#include "job/readers/parse.h"
#include "rl/frameworks/by_names_words.h"
#include "rl/frameworks/tool_values.h"

namespace plimsoll::rl {

using document::Node;

// The settings and flags of the command with most of them, over the file that it names.
Result<Values> values_of_script(std::string_view text, const std::string& path) {
  PLIMSOLL_TRY(shell, job::read_shell(text, beside(path)));
  const job::ShellCommand* best = nullptr;
  std::ptrdiff_t most = 0;
  for (const job::ShellCommand& command : shell.commands) {
    const auto count = std::count_if(command.words.begin(), command.words.end(), [](const job::ShellWord& word) {
      const std::string name =
          job::is_flag(word.text) ? job::key_of_flag(word.text) : std::string(job::split_override(word.text).path);
      return !name.empty() && (!meaning_in_run(name).empty() || !job::meaning_of(name).empty());
    });
    if (count > most) {
      most = count;
      best = &command;
    }
  }
  if (best == nullptr) return bad_input("no command that trains is in the script");
  const job::Launch launch = job::split_command(*best);
  PLIMSOLL_TRY(configured, job::read_configured_command(launch.arguments, parent_folder(path), launch.program));
  // A value that the script does not set is not the file's either; GPUs are asked for where they are counted.
  for (const auto& [name, variable] : configured.unknown) job::put_path(configured.root, name, Node{});
  job::interpolate(configured.root);
  PLIMSOLL_TRY(values, parse_tree(configured.root));
  for (auto& [name, variable] : configured.unknown)
    if (meaning_in_run(name) != "part_gpus" && job::meaning_of(name) != "devices") values.put_unknown(name, variable);
  const job::LaunchFlags flags = job::read_flags(launch.arguments, [](const std::string&) { return false; });
  for (const job::LaunchFlag& flag : flags.flags) {
    const std::string key = job::key_of_flag(flag.written);
    const auto unknown = std::find_if(flag.values.begin(), flag.values.end(),
                                      [](const job::ShellWord& word) { return !word.unknown.empty(); });
    if (unknown != flag.values.end()) values.put_unknown(key, unknown->unknown.front());
  }
  const Node table = job::table_of(flags);
  for (const auto& [key, value] : table.members)
    if (values.unknown().find(key) == values.unknown().end() && !key.starts_with("config")) values.put(key, value);
  read_accelerate_file(launch.accelerate_config, parent_folder(path), values);
  std::map<std::string, std::string> environment = shell.environment;
  for (const auto& [name, value] : best->environment) environment[name] = value;
  job::Draft launcher;
  job::read_launcher(launch, shell.batch_options, environment, launcher);
  for (const job::Assignment& one : launcher.assignments)
    if (one.key == "gpus") values.put("launched_gpus", one.value);
  return values;
}

}  // namespace plimsoll::rl
