// SPDX-License-Identifier: Apache-2.0
// Where following a script begins and ends: its arguments, what it exports, what it leaves unused.
#include "job/readers/shell.h"

#include <utility>

#include "base/text.h"
#include "job/readers/shell_batch.h"
#include "job/readers/shell_runner.h"

namespace plimsoll::job {

Result<Shell> ShellRunner::run(std::string_view text) {
  PLIMSOLL_TRY_STATUS(variables_.set("HOME", {ShellWord{"~", {}}}, false, false));  // every login has one
  PLIMSOLL_TRY_STATUS(take_arguments());
  variables_.script_path = options_.path;
  if (!options_.path.empty()) PLIMSOLL_TRY_STATUS(name_source(options_.path));
  PLIMSOLL_TRY_STATUS(run_text(text));
  shell_.environment = exported();
  keep_unused_flags();
  for (const std::string& name : variables_.assumed_unset()) shell_.assumed_unset.push_back(name);
  return std::move(shell_);
}

Status ShellRunner::set_batch_options(std::vector<std::string> options) {
  shell_.batch_options = std::move(options);
  for (const auto& [name, value] : variables_of_batch(shell_.batch_options))
    PLIMSOLL_TRY_STATUS(variables_.set(name, {ShellWord{value, {}}}, false, false));
  return {};
}

Status ShellRunner::take_arguments() {
  std::size_t at = 0;
  for (; at < options_.arguments.size(); ++at) {
    const std::string& word = options_.arguments[at];
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || !is_name(std::string_view(word).substr(0, equals))) break;
    const std::string name = word.substr(0, equals);
    PLIMSOLL_TRY_STATUS(variables_.set(name, {ShellWord{word.substr(equals + 1), {}}}, false, false));
    exported_.insert(name);
  }
  if (at == options_.arguments.size()) return {};
  variables_.positional.emplace();
  for (; at < options_.arguments.size(); ++at) variables_.positional->push_back(ShellWord{options_.arguments[at], {}});
  return {};
}

std::map<std::string, std::string> ShellRunner::exported() const {
  std::map<std::string, std::string> environment;
  for (const std::string& name : exported_) {
    const ShellVariable* value = variables_.find(name);
    if (value != nullptr && value->words.size() == 1 && value->words.front().unknown.empty())
      environment[name] = value->words.front().text;
  }
  return environment;
}

void ShellRunner::keep_unused_flags() {
  constexpr std::size_t kMaxFlags = 2000;
  for (const auto& [name, variable] : variables_.all())
    for (const ShellWord& word : variable.words) {
      const bool holds_flags = word.text.find("--") != std::string::npos;
      if (!holds_flags && (shell_.unused.empty() || !variable.is_array)) continue;
      const std::string flat = replace(replace(word.text, '\n', ' '), '\\', ' ');
      for (const std::string_view part : split(flat, ' ')) {
        if (part.empty() || shell_.unused.size() > kMaxFlags) continue;
        ShellWord kept{without_marks(part), marked_names(part)};
        shell_.unused.push_back(std::move(kept));
      }
    }
}

Status ShellRunner::run_text(std::string_view text) {
  if (++depth_ > kMaxShellDepth) return bad_input("scripts call each other too deeply");
  PLIMSOLL_TRY(script, parse_shell(text));
  scripts_.push_back(std::move(script));
  const ShellScript& parsed = scripts_.back();
  const ShellScript* outer = std::exchange(script_, &parsed);
  auto done = run_list(parsed.body);
  script_ = outer;
  --depth_;
  if (!done) return tl::make_unexpected(std::move(done.error()));
  return {};
}

Status ShellRunner::name_source(const std::string& path) {
  return variables_.set("BASH_SOURCE", {ShellWord{path, {}}}, true, false);
}
Result<Shell> read_shell(std::string_view text, const ShellOptions& options) {
  std::vector<std::string> batch_options = batch_options_of(text);
  ShellRunner runner(options);
  PLIMSOLL_TRY_STATUS(runner.set_batch_options(std::move(batch_options)));
  return runner.run(text);
}

}  // namespace plimsoll::job
