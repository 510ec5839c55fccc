// SPDX-License-Identifier: Apache-2.0
// What could stand where the cursor is: verbs, flags, keys and their values, models, GPUs. The shells' own scripts are
// a few lines that ask the program, so that they can't be older than it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"

namespace plimsoll::cli {

struct Completion {
  std::string text;
  std::string says;  // one line; "" where there is nothing to say
};

struct Completions {
  std::vector<Completion> words;
  bool files = false;  // names of files, too
  bool list = false;   // several may follow one another, with commas
};

// `words` are the command line after the program's name, the last one being typed ("" where it is not begun).
[[nodiscard]] Completions complete(std::span<const Verb* const> verbs, std::span<const std::string> words);

// The script of bash, zsh or fish that asks `plimsoll complete`; "" for another shell.
[[nodiscard]] std::string_view completion_script(std::string_view shell);

}  // namespace plimsoll::cli
