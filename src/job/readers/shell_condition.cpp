// SPDX-License-Identifier: Apache-2.0
#include "job/readers/shell_condition.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "job/readers/shell_arithmetic.h"
#include "job/readers/shell_patterns.h"

namespace plimsoll::job {

namespace {

constexpr int kMaxDepth = 40;

std::optional<std::int64_t> number(const ShellWord& word) { return evaluate_arithmetic(word.text); }

class Reader {
 public:
  Reader(const std::vector<RawWord>& words, bool is_double, ShellVariables& variables)
      : words_(words), is_double_(is_double), variables_(variables) {}

  Result<Truth> read() {
    PLIMSOLL_TRY(truth, either(0));
    return at_ == words_.size() ? truth : Truth::kUnknown;
  }

 private:
  Result<Truth> either(int depth) {
    PLIMSOLL_TRY(left, both(depth));
    while (is("||") || is("-o")) {
      ++at_;
      PLIMSOLL_TRY(right, both(depth));
      left = left == Truth::kTrue || right == Truth::kTrue         ? Truth::kTrue
             : left == Truth::kUnknown || right == Truth::kUnknown ? Truth::kUnknown
                                                                   : Truth::kFalse;
    }
    return left;
  }
  Result<Truth> both(int depth) {
    PLIMSOLL_TRY(left, single(depth));
    while (is("&&") || is("-a")) {
      ++at_;
      PLIMSOLL_TRY(right, single(depth));
      left = left == Truth::kFalse || right == Truth::kFalse       ? Truth::kFalse
             : left == Truth::kUnknown || right == Truth::kUnknown ? Truth::kUnknown
                                                                   : Truth::kTrue;
    }
    return left;
  }
  Result<Truth> single(int depth) {
    if (depth > kMaxDepth) return bad_input("a condition is nested too deeply");
    if (is("!")) {
      ++at_;
      PLIMSOLL_TRY(inner, single(depth + 1));
      return !inner;
    }
    if (is("(") || is("\\(")) {
      ++at_;
      PLIMSOLL_TRY(inner, either(depth + 1));
      if (is(")") || is("\\)")) ++at_;
      return inner;
    }
    if (at_ >= words_.size()) return Truth::kFalse;
    const std::string& first = words_[at_].text;
    const bool is_unary = first.size() == 2 && first[0] == '-' && at_ + 1 < words_.size() && !is_operator(at_ + 1);
    if (is_unary) {
      ++at_;
      return unary(first[1], words_[at_++].text);
    }
    PLIMSOLL_TRY(left, variables_.expand_value(first, true));
    ++at_;
    if (at_ >= words_.size() || !is_operator(at_)) {
      if (!left.unknown.empty()) return Truth::kUnknown;
      return left.text.empty() ? Truth::kFalse : Truth::kTrue;
    }
    const std::string& sign = words_[at_++].text;
    if (at_ >= words_.size()) return Truth::kUnknown;
    PLIMSOLL_TRY(right, variables_.expand_value(words_[at_++].text, true));
    return compare(left, sign, right);
  }
  Result<Truth> unary(char question, const std::string& raw) {
    PLIMSOLL_TRY(value, variables_.expand_value(raw, true));
    if (question == 'v') return variables_.find(value.text) != nullptr ? Truth::kTrue : Truth::kUnknown;
    if (question != 'z' && question != 'n') return Truth::kUnknown;
    if (!value.unknown.empty() && value.text.empty()) return Truth::kUnknown;
    const bool is_empty = value.text.empty();
    return is_empty == (question == 'z') ? Truth::kTrue : Truth::kFalse;
  }
  [[nodiscard]] Truth compare(const ShellWord& left, const std::string& sign, const ShellWord& right) const {
    if (!left.unknown.empty() || !right.unknown.empty()) return Truth::kUnknown;
    const auto truth = [](bool holds) { return holds ? Truth::kTrue : Truth::kFalse; };
    const auto equal = [&] { return is_double_ ? matches_pattern(right.text, left.text) : left.text == right.text; };
    if (sign == "=" || sign == "==") return truth(equal());
    if (sign == "!=") return truth(!equal());
    if (sign == "<" || sign == "\\<") return truth(left.text < right.text);
    if (sign == ">" || sign == "\\>") return truth(left.text > right.text);
    if (sign == "=~") {
      const bool is_plain = right.text.find_first_of("\\^$.|?*+()[]{}") == std::string::npos;
      return is_plain ? truth(left.text.find(right.text) != std::string::npos) : Truth::kUnknown;
    }
    const auto a = number(left);
    const auto b = number(right);
    if (!a || !b) return Truth::kUnknown;
    if (sign == "-eq") return truth(*a == *b);
    if (sign == "-ne") return truth(*a != *b);
    if (sign == "-lt") return truth(*a < *b);
    if (sign == "-le") return truth(*a <= *b);
    if (sign == "-gt") return truth(*a > *b);
    if (sign == "-ge") return truth(*a >= *b);
    return Truth::kUnknown;
  }
  [[nodiscard]] bool is(std::string_view text) const { return at_ < words_.size() && words_[at_].text == text; }
  [[nodiscard]] bool is_operator(std::size_t at) const {
    constexpr std::string_view kSigns[] = {"=",   "==",  "!=",  "<",   ">",   "\\<", "\\>", "=~",
                                           "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot"};
    return std::find(std::begin(kSigns), std::end(kSigns), words_[at].text) != std::end(kSigns);
  }

  const std::vector<RawWord>& words_;
  bool is_double_;
  ShellVariables& variables_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Truth> evaluate_condition(const std::vector<RawWord>& words, bool is_double, ShellVariables& variables) {
  return Reader(words, is_double, variables).read();
}

}  // namespace plimsoll::job
