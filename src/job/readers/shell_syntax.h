// SPDX-License-Identifier: Apache-2.0
// The grammar of a script: words as they are written, commands, and the blocks that hold them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll::job {

// A word before expansion. An array assignment NAME=(a b) keeps its elements apart.
struct RawWord {
  std::string text;
  std::vector<std::string> elements;
  bool is_array = false;
};

struct ShellNode {
  enum class Kind {
    kSimple,      // words
    kGroup,       // body[0]; in braces or parentheses
    kIf,          // body: condition, then, and where there is one, else
    kCase,        // words[0] is the subject; body[i] runs for patterns[i]
    kFor,         // words: the variable, then the items; body[0]
    kLoop,        // while and until; body: condition, commands
    kFunction,    // words[0] is the name; body[0]
    kArithmetic,  // (( words[0] ))
  };
  enum class Link { kAlways, kAnd, kOr };  // to the command before it

  Kind kind = Kind::kSimple;
  Link link = Link::kAlways;
  bool is_negated = false;
  bool is_until = false;
  bool has_items = false;  // for NAME in ...; without, it goes over the script's arguments
  bool is_piped = false;   // its status is not that of the pipeline
  int line = 0;
  int here_document = -1;   // into ShellScript::documents
  std::string output;       // the target of >, as written
  std::string here_string;  // the word behind <<<, as written
  std::vector<RawWord> words;
  std::vector<std::vector<std::string>> patterns;
  std::vector<std::vector<ShellNode>> body;
};

struct HereDocument {
  std::string text;
  bool is_quoted = false;  // variables in it are not expanded
};

struct ShellScript {
  std::vector<ShellNode> body;
  std::vector<HereDocument> documents;
};

[[nodiscard]] Result<ShellScript> parse_shell(std::string_view text);

// Whether a $(...), $((...)), $[...], ${...} or `...` starts at `at`.
[[nodiscard]] bool opens_substitution(std::string_view text, std::size_t at);
// The end of one that starts at `at`; npos where it is not closed.
[[nodiscard]] std::size_t end_of_substitution(std::string_view text, std::size_t at);

}  // namespace plimsoll::job
