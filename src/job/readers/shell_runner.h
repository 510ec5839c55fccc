// SPDX-License-Identifier: Apache-2.0
// Follows a script command by command. Nothing is run: commands are collected with their words filled in.
// shell.cpp begins and ends it, shell_flow.cpp decides which commands come, shell_commands.cpp takes one command, and
// shell_scripts.cpp goes into the scripts that a script sources, starts or writes.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "job/readers/shell.h"
#include "job/readers/shell_condition.h"
#include "job/readers/shell_syntax.h"
#include "job/readers/shell_variables.h"

namespace plimsoll::job {

// Functions and scripts inside scripts.
constexpr int kMaxShellDepth = 40;

class ShellRunner {
 public:
  explicit ShellRunner(const ShellOptions& options) : options_(options) {}

  Result<Shell> run(std::string_view text);

  Status set_batch_options(std::vector<std::string> options);

 private:
  enum class Flow { kOn, kExit, kReturn, kBreak, kContinue };
  Status take_arguments();

  [[nodiscard]] std::map<std::string, std::string> exported() const;

  // Flags in variables, for scripts that only set them (the model of another script).
  void keep_unused_flags();

  // A script, a sourced file, or the text behind bash -c.
  Status run_text(std::string_view text);

  // ${BASH_SOURCE[0]} of what is followed now.
  Status name_source(const std::string& path);

  // The status of the last command.
  Result<Truth> run_list(const std::vector<ShellNode>& nodes);

  // Follows branches of which one runs (or none, unless one must); what they leave different is unknown.
  Status run_branches(const std::vector<std::function<Status()>>& branches, bool one_must_run);
  Result<Truth> run_node(const ShellNode& node);

  Result<Truth> run_condition(const std::vector<ShellNode>& nodes);
  Status run_body(const std::vector<ShellNode>& nodes);

  Result<Truth> run_if(const ShellNode& node);
  Result<Truth> run_if_branches(const ShellNode& node, Truth truth, bool has_else);

  Result<Truth> run_case(const ShellNode& node);
  Result<Truth> run_for(const ShellNode& node);

  Result<Truth> run_loop(const ShellNode& node);
  Result<Truth> run_simple(const ShellNode& node);

  Status assign(const RawWord& word, bool exports);
  Result<Truth> run_words(const ShellNode& node, std::size_t at);

  Result<Truth> run_inner(const std::string& text, std::vector<ShellWord> launcher, int line);

  struct Function {
    const ShellNode* node = nullptr;
    const ShellScript* script = nullptr;
  };
  Result<Truth> call(const Function function, ShellCommand& command);

  Result<Truth> shift(const ShellCommand& command);
  Result<Truth> set_positional(const ShellCommand& command);

  Result<Truth> source(const ShellCommand& command);

  // srun ... bash run.sh a b: the text that this script wrote there, or, where options say so, that lies beside it, and
  // where its name stands.
  std::optional<std::pair<std::string, std::size_t>> script_of(const ShellCommand& command);

  // It sees what is exported and its own arguments, and changes nothing here.
  Result<Truth> run_script(const std::string& text, std::size_t at, ShellCommand& command, int line);

  // echo "$COMMAND" > run.sh
  Status write_words(const ShellNode& node, const ShellCommand& command);
  void keep_script(const std::string& path, std::string text);

  // sed "s/A/$A/" template.json | sed ... > config.json: a template that the script fills in.
  Status edit_stream(const ShellNode& node, const ShellCommand& command);
  // cat <<EOF > file: a configuration that the script writes before it starts.
  Status write_file(const ShellNode& node);

  const ShellOptions& options_;
  ShellVariables variables_;
  Shell shell_;
  std::set<std::string> exported_;
  std::map<std::string, Function, std::less<>> functions_;
  std::deque<ShellScript> scripts_;  // functions point into them
  const ShellScript* script_ = nullptr;
  std::vector<ShellWord> launcher_;
  Flow flow_ = Flow::kOn;
  bool is_condition_ = false;
  int unsure_ = 0;
  int guarded_ = 0;  // conditions around the command
  int depth_ = 0;
  int steps_ = 0;
  std::map<std::string, std::string> written_;  // files that the script writes, with the marks of what is not known
  std::size_t written_bytes_ = 0;
  std::optional<std::string> stream_;  // what the command before hands on through a pipe, where it is known
  std::size_t sourced_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace plimsoll::job
