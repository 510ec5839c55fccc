// SPDX-License-Identifier: Apache-2.0
#include "job/readers/slurm.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"

namespace plimsoll::job {

namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The value of --export among options, "--export=X" or "--export X".
std::optional<std::string> export_of(const std::vector<std::string>& options) {
  std::optional<std::string> found;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (options[i].starts_with("--export=")) found = options[i].substr(9);
    if (options[i] == "--export" && i + 1 < options.size()) found = options[i + 1];
  }
  return found;
}

// Which --export acts on the ranks, and who gave it.
struct Acting {
  std::string value;
  std::string by;
};

std::optional<Acting> acting_export(const std::vector<std::string>& words, const std::vector<std::string>& batch,
                                    std::string_view script, const std::map<std::string, std::string>& environment) {
  const auto srun =
      std::find_if(words.begin(), words.end(), [](const auto& word) { return file_name(word) == "srun"; });
  if (srun == words.end()) return std::nullopt;
  // A shell between srun and the program may export what it likes.
  for (auto word = srun; word != words.end(); ++word)
    if (file_name(*word) == "bash" || file_name(*word) == "sh") return std::nullopt;
  if (const auto own = export_of({srun, words.end()})) return Acting{*own, "srun --export=" + *own};
  if (const auto set = environment.find("SLURM_EXPORT_ENV"); set != environment.end())
    return Acting{set->second, "SLURM_EXPORT_ENV=" + set->second};
  if (script.find("unset SLURM_EXPORT_ENV") != std::string_view::npos) return std::nullopt;
  if (const auto of_batch = export_of(batch))
    return Acting{*of_batch, fmt::format("#SBATCH --export={}, which srun takes over", *of_batch)};
  return std::nullopt;
}

}  // namespace

PassedOn pass_on(const std::vector<ShellWord>& launcher, const std::vector<std::string>& batch_options,
                 std::string_view script, std::map<std::string, std::string> environment) {
  PassedOn passed;
  std::vector<std::string> words;
  for (const ShellWord& word : launcher) words.push_back(word.text);
  const auto acting = acting_export(words, batch_options, script, environment);
  if (!acting) {
    passed.environment = std::move(environment);
    return passed;
  }
  passed.by = acting->by;
  bool all = false;
  for (const std::string_view item : split(acting->value, ',')) {
    const std::string name(trim(item.substr(0, item.find('='))));
    if (name == "ALL") all = true;
    if (name.empty() || name == "ALL" || name == "NONE" || name == "NIL") continue;
    if (item.find('=') != std::string_view::npos)
      passed.environment[name] = std::string(item.substr(item.find('=') + 1));
    else if (const auto held = environment.find(name); held != environment.end())
      passed.environment[name] = held->second;
  }
  for (const auto& [name, value] : environment) {
    if (passed.environment.contains(name)) continue;
    if (all || name.starts_with("SLURM_"))
      passed.environment[name] = value;
    else
      passed.lost.push_back(name);
  }
  return passed;
}

PassedOn pass_on(std::string_view script) {
  const auto shell = read_shell(script, ShellOptions{});
  if (!shell) return {};
  for (const ShellCommand& command : shell->commands) {
    const bool starts = std::any_of(command.words.begin(), command.words.end(),
                                    [](const ShellWord& word) { return file_name(word.text) == "srun"; });
    if (starts) return pass_on(command.words, shell->batch_options, script, command.environment);
  }
  return {};
}

}  // namespace plimsoll::job
