// SPDX-License-Identifier: Apache-2.0
// The variables of a script and the expansion of its words. A word may expand to several ("${ARGS[@]}")
// or to none; what cannot be known is named in the word instead of guessed.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "job/readers/shell.h"

namespace plimsoll::job {

struct ShellVariable {
  std::vector<ShellWord> words;
  bool is_array = false;

  friend bool operator==(const ShellVariable&, const ShellVariable&) = default;
};

class ShellVariables {
 public:
  // What a branch of a condition changed: nothing stands for a variable that was not set.
  using Changes = std::map<std::string, std::optional<ShellVariable>, std::less<>>;

  Status set(std::string_view name, std::vector<ShellWord> words, bool is_array, bool append);
  void unset(std::string_view name);
  [[nodiscard]] const ShellVariable* find(std::string_view name) const;
  [[nodiscard]] const std::map<std::string, ShellVariable, std::less<>>& all() const { return variables_; }

  // Follows one branch: what it changes is kept apart and taken back.
  void begin_branch();
  [[nodiscard]] Result<Changes> end_branch();
  // After all branches of one condition: what they agree on holds, the rest is unknown.
  [[nodiscard]] Status merge(const std::vector<Changes>& branches);

  // The words that a raw word (quotes and dollars still in it) stands for.
  [[nodiscard]] Result<std::vector<ShellWord>> expand(std::string_view raw);

  // The same for the right side of an assignment, which is one word whatever it expands to. In a condition a
  // variable that nothing sets is empty, and is remembered in assumed_unset(); so is an argument of the script.
  [[nodiscard]] Result<ShellWord> expand_value(std::string_view raw, bool is_condition = false);

  // $1, $2, ...; nothing where the arguments of the script are not known.
  std::optional<std::vector<ShellWord>> positional;

  std::string script_path;  // $0; empty where it is not known

  [[nodiscard]] const std::set<std::string>& assumed_unset() const { return assumed_unset_; }

 private:
  struct Expansion;

  [[nodiscard]] Status spend(std::size_t bytes, std::size_t words);
  [[nodiscard]] Status expand_into(std::string_view raw, int depth, Expansion& out);
  [[nodiscard]] Status expand_dollar(std::string_view raw, std::size_t& at, bool quoted, int depth, Expansion& out);
  [[nodiscard]] Status expand_braces(std::string_view inside, bool quoted, int depth, Expansion& out);
  [[nodiscard]] Status expand_element(std::string_view name, std::string_view index, bool quoted, int depth,
                                      Expansion& out);
  [[nodiscard]] Status expand_edited(std::string_view name, std::string_view rest, bool quoted, int depth,
                                     Expansion& out);
  [[nodiscard]] Status expand_arithmetic(std::string_view expression, int depth, Expansion& out);
  [[nodiscard]] Status expand_command(std::string_view command, bool quoted, int depth, Expansion& out);
  void append_words(const std::vector<ShellWord>& words, bool quoted, bool star, Expansion& out);
  void append_variable(std::string_view name, bool quoted, Expansion& out);
  void append_unset(std::string_view name, Expansion& out);
  void remember(std::string_view name);

  std::map<std::string, ShellVariable, std::less<>> variables_;
  std::vector<Changes> branches_;  // for each open branch, what the variables were before it
  std::set<std::string> assumed_unset_;
  std::size_t bytes_ = 0;  // expanded so far
  std::size_t words_ = 0;
};

[[nodiscard]] bool is_name(std::string_view text);

// What is not known stands in a text between two marks, so that it keeps its place where the text is split or read
// again as a script. `unknown` of a word are the names between its marks.
[[nodiscard]] std::string marked(std::string_view name);
[[nodiscard]] std::vector<std::string> marked_names(std::string_view text);

// The text of a here-document, in which quotes are plain characters, as a word to expand.
[[nodiscard]] std::string with_plain_quotes(std::string_view text);
[[nodiscard]] std::string without_marks(std::string_view text);
inline constexpr char kUnknownMark = '\x01';

}  // namespace plimsoll::job
