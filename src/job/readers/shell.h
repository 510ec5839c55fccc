// SPDX-License-Identifier: Apache-2.0
// Enough of a shell to read launch scripts without running them: quoting, arrays, variables, arithmetic,
// conditions that the script itself decides, loops over listed words, functions, here-documents and sourced
// files. What a script asks of the machine (the output of commands, variables set elsewhere) stays unknown and is
// named. Where a condition cannot be decided every branch is followed; a variable that the branches leave
// different is unknown after them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::job {

struct ShellWord {
  std::string text;
  std::vector<std::string> unknown;  // variables whose values are not in the script

  friend bool operator==(const ShellWord&, const ShellWord&) = default;
};

struct ShellCommand {
  std::vector<ShellWord> words;
  int line = 0;
  bool is_certain = true;  // false: only one branch of a condition that could not be decided runs it
  std::map<std::string, std::string> environment;  // exported when it runs, where the value is known
};

struct Shell {
  std::vector<ShellCommand> commands;              // in the order in which they would run, assignments left out
  std::map<std::string, std::string> environment;  // exported at the end, where the value is known
  std::vector<std::string> batch_options;          // "--nodes=4" of #SBATCH lines
  std::map<std::string, std::string> files;        // written from here-documents: path, text
  std::vector<ShellWord> unused;                   // flags in variables at the end, for a script without a command
  std::vector<std::string> assumed_unset;          // variables that a condition asks for and nothing sets
  std::vector<std::string> notes;                  // sourced files that were not found, ...
};

struct ShellOptions {
  // Where the script lies: its $0 and ${BASH_SOURCE[0]}. Empty: not known.
  std::string path;
  // What stands behind the script's name on the command line; NAME=value in front sets variables.
  std::vector<std::string> arguments;
  // A file that the script sources, or nothing where it is not found.
  std::function<std::optional<std::string>(const std::string& path)> read_file;
  // Whether `bash other.sh a b` is followed into other.sh; what the script itself writes always is.
  bool follows_scripts = false;
};

[[nodiscard]] Result<Shell> read_shell(std::string_view text, const ShellOptions& options = {});

}  // namespace plimsoll::job
