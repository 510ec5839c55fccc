// SPDX-License-Identifier: Apache-2.0
// A verb as data: its flags serve the parser and the help text, so the two cannot disagree.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/arguments.h"
#include "cli/console.h"

namespace plimsoll::cli {

enum class ExitCode : int { kYes = 0, kNo = 1 };  // done or fits; the answer is "no"

struct Example {
  std::string_view command;
  std::string_view says;
};

struct Verb {
  std::string_view name;
  std::string_view summary;    // one line, lower case, without a full stop
  std::string_view operands;   // "FILE...", "[TEXT]"; "" when the verb takes none
  int most_operands = 0;       // -1: any number
  std::string_view details;    // paragraphs of --help, separated by an empty line
  std::vector<Flag> flags;     // without the common ones
  bool takes_keys = false;     // every job key is a flag too
  KeySet (*keys)() = nullptr;  // the keys that are flags, where they are others
  bool streams = false;        // prints while it works: no pager
  bool reads_ahead = false;    // asks for the catalogues, which are read while the words and files of the question are
  std::vector<Example> examples;
  Result<ExitCode> (*run)(const Arguments& arguments, const Console& console) = nullptr;
};

// Flags of every verb: --json, --color, -q, -h, --help.
[[nodiscard]] const std::vector<Flag>& common_flags();

// The verb's own flags, then the common ones.
[[nodiscard]] std::vector<Flag> all_flags(const Verb& verb);

}  // namespace plimsoll::cli
