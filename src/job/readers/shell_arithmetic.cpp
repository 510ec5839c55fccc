// SPDX-License-Identifier: Apache-2.0
#include "job/readers/shell_arithmetic.h"

#include <charconv>

#include "base/checked.h"

namespace plimsoll::job {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<std::int64_t> read() {
    const auto value = sum(0);
    skip_spaces();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  using Value = std::optional<std::int64_t>;

  Value sum(int depth) {
    Value left = product(depth);
    while (left) {
      if (accept('+')) {
        const Value right = product(depth);
        left = right ? checked_add(*left, *right) : std::nullopt;
      } else if (accept('-')) {
        const Value right = product(depth);
        left = right && *right != INT64_MIN ? checked_add(*left, -*right) : std::nullopt;
      } else {
        break;
      }
    }
    return left;
  }
  Value product(int depth) {
    Value left = atom(depth);
    while (left) {
      const char operation = accept('*') ? '*' : accept('/') ? '/' : accept('%') ? '%' : '\0';
      if (operation == '\0') break;
      const Value right = atom(depth);
      if (!right) return std::nullopt;
      if (operation == '*') {
        left = checked_mul(*left, *right);
      } else {
        if (*right == 0 || (*left == INT64_MIN && *right == -1)) return std::nullopt;
        left = operation == '/' ? *left / *right : *left % *right;
      }
    }
    return left;
  }
  Value atom(int depth) {
    if (depth > 32) return std::nullopt;
    if (accept('(')) {
      const Value inside = sum(depth + 1);
      return accept(')') ? inside : std::nullopt;
    }
    if (accept('-')) {
      const Value value = atom(depth + 1);
      return value && *value != INT64_MIN ? Value(-*value) : std::nullopt;
    }
    skip_spaces();
    std::int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, failure] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (failure != std::errc{}) return std::nullopt;
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> evaluate_arithmetic(std::string_view expression) { return Reader(expression).read(); }

}  // namespace plimsoll::job
