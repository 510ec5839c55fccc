// SPDX-License-Identifier: Apache-2.0
// Regular expressions as configuration files name modules with them: the part of Python's re that they use, matched in
// time proportional to pattern and text, whatever the pattern.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace plimsoll {

// Literals, ., [...], (...), (?:...), |, *, +, ?, {m,n} and their lazy forms, ^, $, \b, \d \w \s and escaped signs.
// References to groups and looks ahead or behind are an error.
class NamePattern {
 public:
  [[nodiscard]] static Result<NamePattern> parse(std::string_view text);

  // re.fullmatch
  [[nodiscard]] bool matches(std::string_view text) const;
  // re.match: whether the text begins with a match
  [[nodiscard]] bool starts(std::string_view text) const;

  struct Program;

 private:
  [[nodiscard]] bool run(std::string_view text, bool whole) const;
  explicit NamePattern(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

[[nodiscard]] Status check_pattern(std::string_view text);

// Whether a text is more than a name: it has a sign of a regular expression other than the dot.
[[nodiscard]] bool is_pattern(std::string_view text);

}  // namespace plimsoll
