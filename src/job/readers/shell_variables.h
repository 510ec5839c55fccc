// SPDX-License-Identifier: Apache-2.0
// The variables of a script and the expansion of its words. A word may expand to several ("${ARGS[@]}")
// or to none; what cannot be known is named in the word instead of guessed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "job/readers/shell.h"

namespace plimsoll::job {

class ShellVariables {
 public:
  // `sure` is false inside a condition, loop or function: the variable is then unknown unless it already
  // had this value.
  void set(std::string_view name, std::vector<ShellWord> words, bool is_array, bool append, bool sure);

  // The words that a raw word (quotes and dollars still in it) stands for.
  [[nodiscard]] Result<std::vector<ShellWord>> expand(std::string_view raw) const;

  // The same for the right side of an assignment, which is one word whatever it expands to.
  [[nodiscard]] Result<ShellWord> expand_value(std::string_view raw) const;

  [[nodiscard]] const std::vector<ShellWord>* find(std::string_view name) const;

 private:
  struct Expansion;
  struct Variable {
    std::vector<ShellWord> words;
    bool is_array = false;
  };

  [[nodiscard]] Status expand_into(std::string_view raw, int depth, Expansion& out) const;
  [[nodiscard]] Status expand_dollar(std::string_view raw, std::size_t& at, bool quoted, int depth,
                                     Expansion& out) const;
  [[nodiscard]] Status expand_braces(std::string_view inside, bool quoted, int depth, Expansion& out) const;
  void append_variable(std::string_view name, bool quoted, bool all, Expansion& out) const;

  std::map<std::string, Variable, std::less<>> variables_;
};

// The end of a $(...), $((...)), ${...} or `...` that starts at `at`; npos where it is not closed.
[[nodiscard]] std::size_t end_of_substitution(std::string_view text, std::size_t at);

[[nodiscard]] bool is_name(std::string_view text);

}  // namespace plimsoll::job
