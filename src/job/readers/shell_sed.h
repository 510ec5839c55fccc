// SPDX-License-Identifier: Apache-2.0
// Templates that a script fills in before it starts: sed "s/BATCH/${BATCH}/" template.json | sed ... > config.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/readers/shell.h"

namespace plimsoll::job {

struct SedCommand {
  struct Substitution {
    std::string from;  // taken literally: a pattern with signs of its own is not followed
    std::string to;
    bool is_global = false;
  };
  std::vector<Substitution> substitutions;
  std::string file;  // empty: what comes through the pipe
};

// Nothing where the command does more than replace words by words.
[[nodiscard]] std::optional<SedCommand> parse_sed(const ShellCommand& command);

// The text with every substitution made line by line, as sed makes them; nothing where it grows beyond `most` bytes.
[[nodiscard]] std::optional<std::string> substitute(const SedCommand& command, std::string_view text, std::size_t most);

}  // namespace plimsoll::job
